/* Rows in, nothing else: what belfry-reader can be told. */
#include "reader_config.h"

#include "io/http_server.h"
#include "shared_config.h"

static const struct config_key database_keys[] = {
    DATABASE_URI_ROW,
    KEY("read_uri", CONFIG_URI, database_settings, read_uri, "", "pages from a replica; empty: uri"),
    DATABASE_PREPARED_ROW,
};

static const struct config_key http_keys[] = {
    KEY("listen", CONFIG_ADDRESS, http_settings, listen, "127.0.0.1:8080", "where clients come"),
    KEY("max_connections", CONFIG_COUNT, http_settings, max_connections, "1024", "at once", .min = 1,
        .max = 65536),
    KEY("statement_timeout", CONFIG_DURATION, http_settings, statement_timeout_ms, "2s", "then 503 timeout",
        .min = 10, .max = MINUTES(10)),
    KEY("scan_max", CONFIG_COUNT, http_settings, scan_max, "2000", "entries a filtered page reads at most",
        .min = 101, .max = 100000),
    KEY("settle_max", CONFIG_DURATION, http_settings, settle_max_ms, "30s",
        "the newer walk of feeds without belfry_stamp ends so long ago", .min = 0, .max = HOURS(1)),
    KEY("cors_origins", CONFIG_LIST, http_settings, cors_origins, "",
        "origins of web pages that may read, scheme://host[:port] each"),
};

static const struct config_key admin_keys[] = {
    KEY("listen", CONFIG_ADDRESS, admin_settings, listen, "127.0.0.1:9403", "/livez /readyz /metrics"),
};

static const struct config_key auth_keys[] = {
    KEY("keys", CONFIG_LIST, feed_settings, auth.keys, "", "of tokens, kid:alg:path each"),
    KEY("issuer", CONFIG_TEXT, feed_settings, auth.issuer, "", "iss must be this, when set"),
    KEY("audience", CONFIG_TEXT, feed_settings, auth.audience, "", "aud must hold this, when set"),
    KEY("dev_tokens", CONFIG_BOOL, feed_settings, auth.dev_tokens, "off",
        "lets belfry-reader token make tokens"),
};

static const struct config_key cursor_keys[] = {
    KEY("keys", CONFIG_LIST, feed_settings, cursor.keys, "", "that sign cursors, id:path each",
        .flags = CONFIG_REQUIRED),
    KEY("sign_with", CONFIG_TEXT, feed_settings, cursor.sign_with, "",
        "the id that signs; empty: the only one"),
    KEY("cursor_ttl", CONFIG_DURATION, feed_settings, cursor.cursor_ttl_ms, "0",
        "a cursor's life; 0: for ever", .min = 0, .max = DAYS(3650)),
};

static const struct config_key exports_keys[] = {
    KEY("timeout", CONFIG_DURATION, feed_settings, exports.timeout_ms, "20s",
        "for filling one, then it fails", .min = 100, .max = MINUTES(10)),
    KEY("keep", CONFIG_DURATION, feed_settings, exports.keep_ms, "24h", "then it expires", .min = 1000,
        .max = DAYS(30)),
    KEY("rows_max", CONFIG_COUNT, feed_settings, exports.rows_max, "100000", "of one; more: it fails",
        .min = 1, .max = 10000000),
    KEY("bytes_max", CONFIG_SIZE, feed_settings, exports.bytes_max, "256MiB", "of one; more: it fails",
        .min = 1024, .max = 1LL << 40),
    KEY("open_max", CONFIG_COUNT, feed_settings, exports.open_max, "3",
        "queued and running of one user, then 429", .min = 1, .max = 1000),
    KEY("stored_max", CONFIG_COUNT, feed_settings, exports.stored_max, "20", "ready of one user, then 429",
        .min = 1, .max = 10000),
    KEY("stored_bytes_max", CONFIG_SIZE, feed_settings, exports.stored_bytes_max, "512MiB",
        "ready of one user, then 429", .min = 1024, .max = 1LL << 40),
};

static const struct config_key run_keys[] = {RUN_ROWS};

#define AT(member) offsetof(struct reader_settings, member)

static const struct config_section sections[] = {
    SECTION("database", AT(database), database_keys, "Postgres"),
    SECTION("http", AT(http), http_keys, "for clients"),
    SECTION("auth", AT(feed), auth_keys, "who clients are"),
    SECTION("cursor", AT(feed), cursor_keys, "signed positions"),
    SECTION("exports", AT(feed), exports_keys, "feeds as they stood at one instant"),
    {.name = "feed",
     .kind = CONFIG_NAMED,
     .offset = AT(feed.feeds),
     .help = "a feed of your own: relation, columns and more (config/belfry-reader.ini says all)"},
    SECTION("admin", AT(admin), admin_keys, "for operators"),
    SECTION("run", AT(run), run_keys, "the process"),
};

const struct config_table reader_table = {.sections = sections, .section_count = KEY_COUNT(sections)};

static const struct option_row page_rows[] = {
    {.name = "feed", .argument = "NAME", .help = "the feed"},
    {.name = "workspace", .argument = "ID", .help = "the workspace, where the feed has one"},
    {.name = "user", .argument = "ID", .help = "whose page"},
    {.name = "limit", .argument = "N", .help = "items, at most 100 (20)"},
    {.name = "cursor", .argument = "CURSOR", .help = "go on from here"},
    {.name = "direction", .argument = "older|newer", .help = "which way (older)"},
    {.name = "contract", .argument = "live|boundary", .help = "which promise (live)"},
};

static const struct option_row export_rows[] = {
    {.name = "feed", .argument = "NAME", .help = "the feed (notifications)"},
    {.name = "workspace", .argument = "ID", .help = "the workspace, where the feed has one"},
    {.name = "user", .argument = "ID", .help = "whose export"},
    {.name = "format", .argument = "ndjson|csv", .help = "(ndjson)"},
    {.letter = 'o', .name = "output", .argument = "FILE", .help = "written as FILE.part, then renamed"},
};

static const struct option_row token_rows[] = {
    {.name = "sub", .argument = "ID", .help = "the user the token is for"},
    {.name = "ttl", .argument = "DURATION", .help = "its life (1h)"},
};

static const struct option_command commands[] = {
    {.name = "page", .help = "print one page as JSON", .rows = page_rows, .row_count = KEY_COUNT(page_rows)},
    {.name = "export",
     .help = "write a whole feed, as it stands at one instant, to a file",
     .rows = export_rows,
     .row_count = KEY_COUNT(export_rows)},
    {.name = "token",
     .help = "print a development token",
     .rows = token_rows,
     .row_count = KEY_COUNT(token_rows)},
};

const struct options_table reader_options = {.commands = commands, .command_count = KEY_COUNT(commands)};

enum status reader_config_check(struct config *config, const void *settings, struct fault *fault)
{
    const struct reader_settings *own = settings;
    enum status status = database_config_check(config, &own->database, fault);
    if (status == ST_OK)
        status = http_origins_check(&own->http.cors_origins, fault);
    return status == ST_OK ? config_require(config, "cursor", "keys", fault) : status;
}
