/* The ini files of the test's binaries: short intervals, own topics, own ports. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { LINES_MAX = 160, VALUE_MAX = 400 };

struct line {
    char section[64], key[96], value[VALUE_MAX];
};

struct ini {
    struct line lines[LINES_MAX];
    int count;
};

static void put(struct ini *ini, const char *section, const char *key, const char *value)
{
    int at = 0;
    while (at < ini->count &&
           (strcmp(ini->lines[at].section, section) != 0 || strcmp(ini->lines[at].key, key) != 0))
        at++;
    cr_assert(at < LINES_MAX, "ini too long");
    struct line *line = &ini->lines[at];
    snprintf(line->section, sizeof line->section, "%s", section);
    snprintf(line->key, sizeof line->key, "%s", key);
    snprintf(line->value, sizeof line->value, "%s", value);
    if (at == ini->count)
        ini->count++;
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t bytes = strlen(text);
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        text[--bytes] = '\0';
    return text;
}

static void put_text(struct ini *ini, const char *text)
{
    char section[64] = "";
    char *copy = strdup(text == NULL ? "" : text), *save = NULL;
    for (char *row = strtok_r(copy, "\n", &save); row != NULL; row = strtok_r(NULL, "\n", &save)) {
        char *line = trimmed(row);
        char *equals = strchr(line, '=');
        if (line[0] == '[') {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
        } else if (equals != NULL && line[0] != '#' && line[0] != ';') {
            *equals = '\0';
            put(ini, section, trimmed(line), trimmed(equals + 1));
        }
    }
    free(copy);
}

static void write_ini(struct world *w, const struct ini *ini, const char *stem, char *path)
{
    static int number;
    snprintf(path, WORLD_PATH_MAX, "%.400s/%s-%d.ini", w->folder, stem, ++number);
    FILE *stream = fopen(path, "w");
    cr_assert(stream != NULL);
    /* A section may stand once only: all its keys follow its first line. */
    for (int i = 0; i < ini->count; i++) {
        int first = 0;
        while (strcmp(ini->lines[first].section, ini->lines[i].section) != 0)
            first++;
        if (first != i)
            continue;
        fprintf(stream, "[%s]\n", ini->lines[i].section);
        for (int k = i; k < ini->count; k++) {
            if (strcmp(ini->lines[k].section, ini->lines[i].section) == 0)
                fprintf(stream, "%s = %s\n", ini->lines[k].key, ini->lines[k].value);
        }
        fprintf(stream, "\n");
    }
    fclose(stream);
}

static void put_common(struct world *w, struct ini *ini, const char *role)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", world_free_port());
    put(ini, "admin", "listen", address);
    put(ini, "database", "uri", world_role_uri(w, role));
    put(ini, "run", "log_level", "debug");
}

static void put_kafka(struct world *w, struct ini *ini, const char *group)
{
    put(ini, "kafka", "bootstrap.servers", w->brokers);
    put(ini, "kafka", "group.id", group);
    put(ini, "kafka", "session.timeout.ms", "6000");
    put(ini, "kafka", "heartbeat.interval.ms", "500");
    put(ini, "kafka", "topic.metadata.refresh.interval.ms", "1000");
    put(ini, "topics", "events", w->events);
    put(ini, "topics", "devices", w->devices);
    put(ini, "topics", "receipts", w->receipts);
    put(ini, "topics", "dlq", w->dlq);
    put(ini, "topics", "receipts_dlq", w->receipts_dlq);
}

static const char *value_of(const struct ini *ini, const char *section, const char *key)
{
    for (int i = 0; i < ini->count; i++) {
        if (strcmp(ini->lines[i].section, section) == 0 && strcmp(ini->lines[i].key, key) == 0)
            return ini->lines[i].value;
    }
    return "";
}

static void drop(struct ini *ini, const char *section)
{
    int kept = 0;
    for (int i = 0; i < ini->count; i++) {
        if (strcmp(ini->lines[i].section, section) != 0)
            ini->lines[kept++] = ini->lines[i];
    }
    ini->count = kept;
}

static void make_dispatcher(struct world *w, struct ini *ini, const char *extra)
{
    put_common(w, ini, "belfry_dispatcher");
    put_kafka(w, ini, w->group);
    put(ini, "ingest", "allow_short_key_retention", "on");
    put(ini, "fanout", "lease", "3s");
    put(ini, "fanout", "sweep_interval", "300ms");
    put(ini, "fanout", "rate_limit", "100000"); /* full speed; tests of the rate set their own */
    put(ini, "provider", "base_url", w->provider_url[0] == '\0' ? "http://127.0.0.1:9" : w->provider_url);
    put(ini, "provider", "request_timeout", "5s");
    put(ini, "provider", "connect_timeout", "1s");
    put(ini, "run", "shutdown_timeout", "10s");
    put_text(ini, extra);
}

static void make_reconciler(struct world *w, struct ini *ini, const char *extra)
{
    put_common(w, ini, "belfry_reconciler");
    put_kafka(w, ini, w->reconciler_group);
    put(ini, "provider", "base_url", w->provider_url[0] == '\0' ? "http://127.0.0.1:9" : w->provider_url);
    put(ini, "provider", "request_timeout", "5s");
    put(ini, "provider", "connect_timeout", "1s");
    put(ini, "reconciler", "receipt_delay", "500ms");
    put(ini, "reconciler", "poll_interval", "500ms");
    put(ini, "reconciler", "lease", "3s");
    put(ini, "run", "shutdown_timeout", "10s");
    put_text(ini, extra);
}

static void make_reader(struct world *w, struct ini *ini, const char *extra)
{
    char path[WORLD_PATH_MAX], value[WORLD_PATH_MAX + 32], address[64];
    put_common(w, ini, "belfry_reader");
    snprintf(address, sizeof address, "127.0.0.1:%d", world_free_port());
    put(ini, "http", "listen", address);
    snprintf(path, sizeof path, "%.400s/keys.hex", w->folder);
    FILE *stream = fopen(path, "w");
    cr_assert(stream != NULL);
    fprintf(stream, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n");
    fclose(stream);
    snprintf(value, sizeof value, "1:%.380s", path);
    put(ini, "cursor", "keys", value);
    put(ini, "cursor", "sign_with", "1");
    snprintf(value, sizeof value, "dev:HS256:%.380s", path);
    put(ini, "auth", "keys", value);
    put(ini, "auth", "dev_tokens", "on");
    put_text(ini, extra);
}

void world_write_dispatcher_ini(struct world *w, const char *extra, char *path)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_dispatcher(w, ini, extra);
    write_ini(w, ini, "dispatcher", path);
    free(ini);
}

void world_write_reconciler_ini(struct world *w, const char *extra, char *path)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_reconciler(w, ini, extra);
    write_ini(w, ini, "reconciler", path);
    free(ini);
}

int world_audit(struct world *w, const char *extra, char *output, size_t size)
{
    char path[WORLD_PATH_MAX];
    world_write_reconciler_ini(w, extra, path);
    const char *argv[] = {"-F", path, "--audit", NULL};
    return world_run(w, "src/bin/belfry-reconciler", argv, output, size);
}

void world_write_reader_ini(struct world *w, const char *extra, char *path)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_reader(w, ini, extra);
    write_ini(w, ini, "reader", path);
    free(ini);
}

static struct child *start(struct world *w, const struct ini *ini, const char *binary, const char *at)
{
    char path[WORLD_PATH_MAX], crash[128];
    write_ini(w, ini, strrchr(binary, '-') + 1, path);
    const char *argv[] = {"-F", path, NULL};
    snprintf(crash, sizeof crash, "BELFRY_CRASH=%s", at == NULL ? "" : at);
    const char *environment[] = {crash, NULL};
    struct child *child = child_start(w, binary, argv, environment);
    snprintf(child->admin, sizeof child->admin, "%s", value_of(ini, "admin", "listen"));
    snprintf(child->ini, sizeof child->ini, "%s", path);
    if (at == NULL)
        child_wait_ready(child, 30);
    return child;
}

struct child *world_dispatcher_crash(struct world *w, const char *extra, const char *at)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_dispatcher(w, ini, extra);
    struct child *child = start(w, ini, "src/bin/belfry-dispatcher-crash", at);
    free(ini);
    return child;
}

struct child *world_dispatcher(struct world *w, const char *extra)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_dispatcher(w, ini, extra);
    struct child *child = start(w, ini, "src/bin/belfry-dispatcher", NULL);
    free(ini);
    return child;
}

struct child *world_reconciler_crash(struct world *w, const char *extra, const char *at)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_reconciler(w, ini, extra);
    struct child *child = start(w, ini, "src/bin/belfry-reconciler-crash", at);
    free(ini);
    return child;
}

struct child *world_reconciler(struct world *w, const char *extra)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_reconciler(w, ini, extra);
    struct child *child = start(w, ini, "src/bin/belfry-reconciler", NULL);
    free(ini);
    return child;
}

struct child *world_reader(struct world *w, const char *extra, char *base_url)
{
    struct ini *ini = calloc(1, sizeof *ini);
    make_reader(w, ini, extra);
    if (strcmp(value_of(ini, "cursor", "keys"), "none") == 0)
        drop(ini, "cursor");
    snprintf(base_url, 64, "http://%.50s", value_of(ini, "http", "listen"));
    struct child *child = start(w, ini, "src/bin/belfry-reader", NULL);
    free(ini);
    return child;
}
