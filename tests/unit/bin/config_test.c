/* The three tables: that the shipped files hold every key with its default, that the contract's keys are all
 * there, and that a flag and a property of ours are judged as they should. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bin/dispatcher_config.h"
#include "bin/reader_config.h"
#include "bin/reconciler_config.h"

enum { SETTINGS_MAX = 4096, BINARIES = 3 };

struct binary {
    const char *name;
    const struct config_table *table;
    enum status (*check)(struct config *config, const void *settings, struct fault *fault);
    size_t settings_bytes;
    const char *keys; /* contracts/config.md: "section key=default;" */
};

static const char dispatcher_keys[] =
    "topics events=belfry.events;topics devices=belfry.devices;topics receipts=belfry.receipts;"
    "topics dlq=belfry.events.dlq;topics receipts_dlq=belfry.receipts.dlq;topics settled_topic=;"
    "database uri=;database prepared_statements=on;"
    "ingest batch_max_events=1000;ingest batch_max_recipients=10000;ingest batch_max_bytes=4MiB;"
    "ingest record_max_bytes=1MiB;ingest devices_per_user_max=20;ingest key_retention=30d;"
    "ingest allow_short_key_retention=off;"
    "fanout chunk_size=100;fanout max_concurrent_requests=6;fanout rate_limit=600;fanout rate_share=1;"
    "fanout send_attempts=3;fanout push_max_age=1h;fanout lease=60s;fanout sweep_interval=5s;"
    "fanout batches_in_memory=64;"
    "provider base_url=;provider token=;provider request_timeout=30s;provider connect_timeout=5s;"
    "provider auth_pause=30s;provider provider_failures=5;provider provider_pause=1s;"
    "provider provider_pause_max=30s;provider token_check=strict;"
    "preferences url=;preferences token=;preferences timeout=300ms;preferences ttl=30s;"
    "preferences stale_ttl=10min;preferences max_users=100000;preferences breaker_failures=5;"
    "preferences breaker_open=5s;admin listen=127.0.0.1:9401;run roles=ingest, fanout;"
    "run shutdown_timeout=25s;run log_level=info;run log_format=json;";
static const char reconciler_keys[] =
    "topics receipts=belfry.receipts;topics receipts_dlq=belfry.receipts.dlq;topics settled_topic=;"
    "database uri=;database prepared_statements=on;provider base_url=;provider token=;"
    "provider request_timeout=30s;provider connect_timeout=5s;"
    "reconciler receipt_delay=15min;reconciler poll_interval=60s;reconciler receipt_max_age=24h;"
    "reconciler receipt_chunk=300;reconciler lease=60s;reconciler token_stale_after=270d;"
    "reconciler notification_retention=365d;reconciler dispatch_retention=90d;admin listen=127.0.0.1:9402;"
    "run shutdown_timeout=25s;run log_level=info;run log_format=json;";
static const char reader_keys[] =
    "database uri=;database read_uri=;database prepared_statements=on;"
    "http listen=127.0.0.1:8080;http max_connections=1024;http statement_timeout=2s;http scan_max=2000;"
    "http settle_max=30s;http cors_origins=;admin listen=127.0.0.1:9403;"
    "auth keys=;auth issuer=;auth audience=;auth dev_tokens=off;cursor keys=;cursor sign_with=;"
    "cursor cursor_ttl=0;run shutdown_timeout=25s;run log_level=info;run log_format=json;";

static struct binary binaries[BINARIES] = {
    {"dispatcher", &dispatcher_table, dispatcher_config_check, sizeof(struct dispatcher_settings),
     dispatcher_keys},
    {"reconciler", &reconciler_table, reconciler_config_check, sizeof(struct reconciler_settings),
     reconciler_keys},
    {"reader", &reader_table, reader_config_check, sizeof(struct reader_settings), reader_keys},
};

static const struct config_key *find(const struct config_table *table, const char *section, const char *key)
{
    for (size_t i = 0; i < table->section_count; i++) {
        for (size_t j = 0; strcmp(table->sections[i].name, section) == 0 && j < table->sections[i].key_count;
             j++) {
            if (strcmp(table->sections[i].keys[j].key, key) == 0)
                return &table->sections[i].keys[j];
        }
    }
    return NULL;
}

Test(bin_config, the_tables_hold_the_contract)
{
    int looked = 0;
    for (int b = 0; b < BINARIES; b++) {
        char section[32], key[64], value[64];
        for (const char *at = binaries[b].keys; *at != '\0'; at = strchr(at, ';') + 1) {
            value[0] = '\0';
            cr_assert_geq(sscanf(at, "%31s %63[^=;]=%63[^;]", section, key, value), 2);
            const struct config_key *row = find(binaries[b].table, section, key);
            cr_assert_not_null(row, "%s: [%s] %s", binaries[b].name, section, key);
            cr_expect_str_eq(row->fallback, value, "%s: [%s] %s", binaries[b].name, section, key);
            looked++;
        }
    }
    printf("%d keys of the contract\n", looked);
    cr_expect_eq(looked, 87);
}

Test(bin_config, every_row_is_sound)
{
    for (int b = 0; b < BINARIES; b++) {
        for (size_t i = 0; i < binaries[b].table->section_count; i++) {
            const struct config_section *section = &binaries[b].table->sections[i];
            cr_expect_lt(section->offset, binaries[b].settings_bytes);
            for (size_t j = 0; j < section->key_count; j++) {
                const struct config_key *key = &section->keys[j];
                cr_expect_not_null(key->help, "%s", key->key);
                cr_expect_not_null(key->fallback, "%s", key->key);
                cr_expect_lt(section->offset + key->offset, binaries[b].settings_bytes, "%s", key->key);
                cr_expect_leq(key->min, key->max, "%s", key->key);
                bool number =
                    key->type == CONFIG_COUNT || key->type == CONFIG_SIZE || key->type == CONFIG_DURATION;
                cr_expect(!number || key->max > 0, "%s has no maximum", key->key);
                for (size_t k = 0; k < j; k++)
                    cr_expect_neq(key->offset, section->keys[k].offset, "%s and %s share a field", key->key,
                                  section->keys[k].key);
            }
        }
    }
}

static enum status load(const struct binary *binary, const char *path, struct config *config, void *settings,
                        struct fault *fault)
{
    const struct config_input input = {.path = path};
    config_init(config, binary->table);
    memset(settings, 0, SETTINGS_MAX);
    return config_load(config, &input, settings, fault);
}

static char *dump_of(const struct config *config)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    config_dump(config, &out);
    return out.at;
}

/* Lines that may differ: what has no default but must be given. */
static bool is_required(const char *line)
{
    return strncmp(line, "uri =", 5) == 0 || strncmp(line, "base_url =", 10) == 0 ||
           strncmp(line, "bootstrap.servers =", 19) == 0 || strncmp(line, "keys = c1", 9) == 0;
}

static void drop_required(char *text)
{
    char *out = text, *rest = text;
    cr_assert_not_null(text);
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (is_required(line) || strcmp(line, "keys =") == 0)
            continue;
        size_t bytes = strlen(line);
        memmove(out, line, bytes);
        out[bytes] = '\n';
        out += bytes + 1;
    }
    *out = '\0';
}

Test(bin_config, the_shipped_files_equal_the_defaults)
{
    for (int b = 0; b < BINARIES; b++) {
        struct config defaults, shipped;
        struct fault fault;
        char settings[SETTINGS_MAX], path[512];
        cr_assert_leq(binaries[b].settings_bytes, SETTINGS_MAX);
        snprintf(path, sizeof path, BELFRY_SOURCE_DIR "/config/belfry-%s.ini", binaries[b].name);
        cr_assert_eq(load(&binaries[b], NULL, &defaults, settings, &fault), ST_OK, "%s", fault.text);
        char *expected = dump_of(&defaults);
        cr_assert_eq(load(&binaries[b], path, &shipped, settings, &fault), ST_OK, "%s", fault.text);
        cr_expect_eq(binaries[b].check(&shipped, settings, &fault), ST_OK, "%s", fault.text);
        cr_expect_eq(shipped.warning_count, 0);
        char *actual = dump_of(&shipped);
        drop_required(expected);
        drop_required(actual);
        cr_expect_str_eq(actual, expected);
        free(expected);
        free(actual);
        config_done(&defaults);
        config_done(&shipped);
    }
}

/* A key the file sets shows up as a line "key = " that is no comment. */
static bool names(const char *text, const char *section, const char *key)
{
    char head[64], line[96];
    snprintf(head, sizeof head, "\n[%s]\n", section);
    snprintf(line, sizeof line, "\n%s =", key);
    const char *begin = strstr(text, head);
    const char *found = begin == NULL ? NULL : strstr(begin, line);
    const char *next = begin == NULL ? NULL : strstr(begin + 1, "\n[");
    return found != NULL && (next == NULL || found < next);
}

Test(bin_config, the_shipped_files_name_every_key)
{
    for (int b = 0; b < BINARIES; b++) {
        char path[512], *text = calloc(1, 1 << 16);
        snprintf(path, sizeof path, BELFRY_SOURCE_DIR "/config/belfry-%s.ini", binaries[b].name);
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file, "%s", path);
        cr_assert_gt(fread(text, 1, (1 << 16) - 1, file), 0);
        fclose(file);
        for (size_t i = 0; i < binaries[b].table->section_count; i++) {
            const struct config_section *section = &binaries[b].table->sections[i];
            for (size_t j = 0; j < section->key_count; j++)
                cr_expect(names(text, section->name, section->keys[j].key), "%s: [%s] %s", path,
                          section->name, section->keys[j].key);
        }
        free(text);
    }
}

Test(bin_config, the_minimal_files_are_enough)
{
    for (int b = 0; b < BINARIES; b++) {
        struct config config;
        struct fault fault;
        char settings[SETTINGS_MAX], path[512];
        snprintf(path, sizeof path, BELFRY_SOURCE_DIR "/config/belfry-%s-minimal.ini", binaries[b].name);
        cr_assert_eq(load(&binaries[b], path, &config, settings, &fault), ST_OK, "%s", fault.text);
        cr_expect_eq(binaries[b].check(&config, settings, &fault), ST_OK, "%s", fault.text);
        config_done(&config);
    }
}

/* What a key's own row cannot say, refused with its file and line. */
Test(bin_config, what_cannot_work_is_refused_with_its_line)
{
    static const struct {
        int binary;
        const char *section, *line, *says;
    } rows[] = {
        {0, "provider", "base_url = ftp://exp.host", ":8: [provider] base_url"},
        {0, "provider", "base_url = exp.host", ":8: [provider] base_url"},
        {0, "provider", "base_url = https://", ":8: [provider] base_url"},
        {0, "provider", "base_url = https://exp.host/?a=b", ":8: [provider] base_url"},
        {1, "provider", "base_url = ftp://exp.host", ":8: [provider] base_url"},
        {0, "database", "uri = not a uri", ":5: [database] uri"},
        {1, "database", "uri = host=x hunter2=y", ":5: [database] uri"},
        {2, "database", "uri = not a uri", ":5: [database] uri"},
        {0, "topics", "dlq = belfry.events", ":12: [topics] dlq names"},
        {0, "topics", "receipts = belfry.devices", ":12: [topics] receipts names"},
        {0, "topics", "settled_topic = belfry.receipts", ":12: [topics] settled_topic names"},
        {1, "topics", "receipts_dlq = belfry.receipts", ":12: [topics] receipts_dlq names"},
        {0, "topics", "events =", ":12: [topics] events is no topic's name"},
        {0, "topics", "events = a b", ":12: [topics] events is no topic's name"},
        {0, "topics", "devices = ..", ":12: [topics] devices is no topic's name"},
        {0, "kafka", "not.a.property = 1", ":3: [kafka] not.a.property"},
        {1, "kafka", "session.timeout.ms = soon", ":3: [kafka] session.timeout.ms"},
        {0, "topics", "[preferences]\nurl = ftp://accounts", ":13: [preferences] url"},
        {0, "topics", "[preferences]\nurl = accounts:8080/preferences", ":13: [preferences] url"},
        {0, "topics", "[preferences]\nurl = http://accounts:8080/preferences?v=1", ""},
        {0, "topics", "receipts_dlq = belfry.events.dlq", ""},
        {0, "topics", "settled_topic = belfry.settled", ""},
        {0, "database", "uri = host=127.0.0.1 user=a", ""},
    };
    char path[] = "/tmp/belfry-config-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        FILE *file = fopen(path, "w");
        const char *const lines[] = {"kafka",    "bootstrap.servers = x:1", "database", "uri = host=x",
                                     "provider", "base_url = http://x",     "topics",   ""};
        for (int k = 0; k < 8; k += 2) {
            bool own = strcmp(lines[k], rows[i].section) == 0;
            bool added = own && (k == 0 || k == 6); /* else it stands for the section's line */
            if (rows[i].binary == 2 && k != 2)
                fprintf(file, "%s", k == 0 ? "[cursor]\nkeys = 1:/none\n\n" : "");
            else
                fprintf(file, "[%s]\n%s\n%s\n", lines[k], own && !added ? rows[i].line : lines[k + 1],
                        added ? rows[i].line : "");
        }
        fclose(file);
        struct config config;
        struct fault fault;
        char settings[SETTINGS_MAX];
        const struct binary *binary = &binaries[rows[i].binary];
        cr_assert_eq(load(binary, path, &config, settings, &fault), ST_OK, "%s", fault.text);
        enum status status = binary->check(&config, settings, &fault);
        if (status != ST_OK)
            config_blame(&config, &fault);
        cr_expect_eq(status, rows[i].says[0] == '\0' ? ST_OK : ST_REJECT, "%s", rows[i].line);
        cr_expect(rows[i].says[0] == '\0' || strstr(fault.text, rows[i].says) != NULL, "%s: %s", rows[i].line,
                  fault.text);
        cr_expect(rows[i].says[0] == '\0' || strstr(fault.text, "hunter2") == NULL, "%s", fault.text);
        config_done(&config);
    }
    unlink(path);
}

Test(bin_config, values_arrive_in_their_fields)
{
    struct config config;
    struct fault fault;
    char *settings = calloc(1, SETTINGS_MAX);
    cr_assert_eq(load(&binaries[0], NULL, &config, settings, &fault), ST_OK);
    const struct dispatcher_settings *d = (const void *)settings;
    cr_expect_str_eq(d->topics.dlq, "belfry.events.dlq");
    cr_expect_eq(d->ingest.batch_max_bytes, 4u << 20);
    cr_expect_eq(d->ingest.key_retention_ms, INT64_C(30) * 86400000);
    cr_expect_eq(d->fanout.push_max_age_ms, 3600000);
    cr_expect_eq(d->fanout.rate_share, 1.0);
    cr_expect_eq(d->provider.token_check, TOKEN_CHECK_STRICT);
    cr_expect_eq(d->preferences.timeout_ms, 300);
    cr_expect_eq(d->run.roles, ROLE_INGEST | ROLE_FANOUT);
    cr_expect_eq(d->run.log_level, LOG_INFO);
    cr_expect_eq(d->admin.listen.port, 9401);
    cr_expect_str_eq(config_pairs_find(&d->kafka.properties, "group.id"), "belfry-dispatcher");
    config_done(&config);
    cr_assert_eq(load(&binaries[1], NULL, &config, settings, &fault), ST_OK);
    const struct reconciler_settings *c = (const void *)settings;
    cr_expect_eq(c->reconcile.receipt_delay_ms, 900000);
    cr_expect_eq(c->reconcile.dispatch_retention_ms, INT64_C(90) * 86400000);
    config_done(&config);
    cr_assert_eq(load(&binaries[2], NULL, &config, settings, &fault), ST_OK);
    const struct reader_settings *r = (const void *)settings;
    cr_expect_eq(r->http.statement_timeout_ms, 2000);
    cr_expect_eq(r->feed.cursor.cursor_ttl_ms, 0);
    cr_expect_not(r->feed.auth.dev_tokens);
    config_done(&config);
    free(settings);
}
