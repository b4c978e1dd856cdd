/* belfry-reader: settings in, pages out over HTTP; `page` prints one page, `export` writes a
 * whole export to a file, `token` prints a development token.
 * Always: without a cursor key nothing is served. Exit codes as in contracts/config.md. */
#include <stdio.h>
#include <stdlib.h>

#include "feed/feed.h"
#include "frame.h"
#include "reader_config.h"
#include "reader_export.h"

enum { TOKEN_BYTES_MAX = 8 * 1024, PAGE_BYTES_MAX = 16 * 1024 * 1024 };

static void reader_setup(const struct frame *frame, struct feed_setup *setup)
{
    const struct reader_settings *settings = frame->settings;
    const struct database_settings *database = &settings->database;
    *setup = (struct feed_setup){
        .settings = &settings->feed,
        .http = &settings->http,
        .database_uri = database->read_uri[0] != '\0' ? database->read_uri : database->uri,
        .primary_uri = database->read_uri[0] != '\0' ? database->uri : NULL,
        .prepared_statements = database->prepared_statements,
        .shutdown_timeout_ms = settings->run.shutdown_timeout_ms,
        .clock = frame->clock,
        .metrics = frame->metrics,
        .readiness = frame->readiness,
    };
}

static enum status reader_check(struct config *config, const void *settings, struct fault *fault)
{
    enum status status = reader_config_check(config, settings, fault);
    if (status != ST_OK)
        return status;
    return feed_check(&((const struct reader_settings *)settings)->feed, config, fault);
}

static enum status reader_take(void *context, const void *settings, struct fault *fault)
{
    const struct reader_settings *fresh = settings;
    return feed_take_keys(context, &fresh->feed, fault);
}

static void reader_reload(void *context, struct feed *feed)
{
    frame_reload(context, reader_take, feed);
}

static enum status reader_run(struct frame *frame, struct fault *fault)
{
    struct feed_setup setup;
    struct feed *feed = NULL;
    reader_setup(frame, &setup);
    setup.reload = reader_reload;
    setup.reload_context = frame;
    enum status status = feed_open(&setup, &feed, fault);
    if (status == ST_OK)
        status = feed_run(feed, fault);
    else if (status == ST_REJECT)
        fault->exit_code = EXIT_USAGE;
    feed_close(feed);
    return status;
}

static enum status reader_print(struct buffer *out, struct fault *fault)
{
    buffer_add_byte(out, '\n');
    if (!out->failed && fwrite(out->at, 1, out->bytes, stdout) == out->bytes)
        return ST_OK;
    fault_set(fault, "output", "the answer could not be written");
    return ST_STOP;
}

/* A script wants the code that HTTP would give: it goes before the sentence. A person wants the line. */
static void reader_name_code(const struct frame *frame, struct fault *fault)
{
    char text[FAULT_TEXT_MAX];
    if (strcmp(fault->code, "config") == 0) {
        config_blame(frame->config, fault);
        return;
    }
    snprintf(text, sizeof text, "%s: %.*s", fault->code, (int)(FAULT_TEXT_MAX - FAULT_CODE_MAX - 3),
             fault->text);
    memcpy(fault->text, text, sizeof text);
}

static enum status reader_page(const struct frame *frame, struct buffer *out, struct fault *fault)
{
    static const char *const flags[] = {"limit", "cursor", "direction", "contract"};
    struct http_parameter parameters[sizeof flags / sizeof flags[0]];
    struct feed_setup setup;
    const struct options *options = frame->options;
    const char *feed = options_value(options, "feed", 0);
    struct feed_once once = {
        .feed = span_of(feed == NULL ? "notifications" : feed),
        .workspace = span_of(options_value(options, "workspace", 0)),
        .user = span_of(options_value(options, "user", 0)),
        .parameters = parameters,
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const char *value = options_value(options, flags[i], 0);
        if (value != NULL)
            parameters[once.count++] = (struct http_parameter){span_of(flags[i]), span_of(value)};
    }
    enum status status = config_require(frame->config, "database", "uri", fault);
    if (status == ST_OK)
        status = config_require(frame->config, "cursor", "keys", fault);
    if (status != ST_OK)
        return status;
    reader_setup(frame, &setup);
    status = feed_page(&setup, &once, out, fault);
    if (status != ST_OK)
        reader_name_code(frame, fault);
    return status;
}

/* 90s 15min 24h 30d; 1 s to a year. */
static bool reader_read_ttl(const char *text, int64_t *ttl_ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
    const int64_t ttl_max_ms = 365 * (int64_t)86400000;
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    long long number = strtoll(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0 || number > ttl_max_ms / units[i].ms)
            continue;
        *ttl_ms = number * units[i].ms;
        return *ttl_ms >= 1000;
    }
    return false;
}

static enum status reader_token(const struct frame *frame, struct buffer *out, struct fault *fault)
{
    const struct reader_settings *settings = frame->settings;
    const char *sub = options_value(frame->options, "sub", 0), *ttl = options_value(frame->options, "ttl", 0);
    struct feed_grant grant = {
        .sub = span_of(sub), .ttl_ms = 3600000, .now_us = clock_wall_us(&frame->clock)};
    if (ttl != NULL && !reader_read_ttl(ttl, &grant.ttl_ms)) {
        fault_set(fault, "usage", "--ttl takes a duration of 1s to 365d, such as 15min");
        return ST_REJECT;
    }
    return feed_token(&settings->feed.auth, &grant, out, fault);
}

static enum status reader_write_export(const struct frame *frame, struct fault *fault)
{
    struct feed_setup setup;
    reader_setup(frame, &setup);
    enum status status = reader_export(frame, &setup, fault);
    if (status != ST_OK)
        reader_name_code(frame, fault);
    if (status == ST_REJECT)
        fault->exit_code = EXIT_USAGE;
    return status;
}

static enum status reader_once(struct frame *frame, bool *handled, enum exit_code *code, struct fault *fault)
{
    const struct option_command *command = frame->options->command;
    struct buffer out;
    *handled = command != NULL;
    *code = EXIT_DONE;
    if (command == NULL)
        return ST_OK;
    if (strcmp(command->name, "export") == 0)
        return reader_write_export(frame, fault);
    bool page = strcmp(command->name, "page") == 0;
    buffer_init(&out, page ? PAGE_BYTES_MAX : TOKEN_BYTES_MAX);
    enum status status = page ? reader_page(frame, &out, fault) : reader_token(frame, &out, fault);
    if (status == ST_REJECT)
        fault->exit_code = EXIT_USAGE;
    if (status == ST_OK)
        status = reader_print(&out, fault);
    buffer_done(&out);
    return status;
}

int main(int argc, char **argv)
{
    const struct frame_program reader = {
        .name = "belfry-reader",
        .summary = "serves feeds over HTTP, page by page",
        .options = reader_options,
        .config = reader_table,
        .settings_bytes = sizeof(struct reader_settings),
        .run_offset = offsetof(struct reader_settings, run),
        .admin_offset = offsetof(struct reader_settings, admin),
        .check = reader_check,
        .run = reader_run,
        .run_reloads = true,
        .once = reader_once,
    };
    return frame_main(&reader, argc, argv);
}
