/* Every type, every source, every refusal, and that nothing secret is shown. */
#include "base/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum color { RED, GREEN };

struct work {
    const char *name, *uri, *token;
    int64_t wait_ms;
    size_t bytes, count;
    double share;
    bool fast;
    struct config_address listen;
    enum color color;
    unsigned colors;
    struct config_list list;
};

struct other {
    const char *need;
};

struct all {
    char before[8];
    struct work work;
    struct other other;
    struct config_pairs kafka;
    struct config_named feeds;
};

#define KEY(field) offsetof(struct work, field)
static const struct config_key work_keys[] = {
    {.key = "name", .type = CONFIG_TEXT, .offset = KEY(name), .fallback = "belfry", .help = "A name."},
    {.key = "uri", .type = CONFIG_URI, .offset = KEY(uri), .fallback = "", .help = "A place."},
    {.key = "token", .type = CONFIG_SECRET, .offset = KEY(token), .fallback = "", .help = "A secret."},
    {"wait", CONFIG_DURATION, 0, KEY(wait_ms), "30s", 100, 86400000, "A wait.", NULL},
    {"bytes", CONFIG_SIZE, 0, KEY(bytes), "4MiB", 1024, 64 * 1024 * 1024, "A size.", NULL},
    {"count", CONFIG_COUNT, 0, KEY(count), "7", 1, 100, "A number.", NULL},
    {.key = "share", .type = CONFIG_SHARE, .offset = KEY(share), .fallback = "1", .help = "A share."},
    {.key = "fast", .type = CONFIG_BOOL, .offset = KEY(fast), .fallback = "on", .help = "Fast or not."},
    {.key = "listen",
     .type = CONFIG_ADDRESS,
     .offset = KEY(listen),
     .fallback = "127.0.0.1:8080",
     .help = "Where."},
    {.key = "color",
     .type = CONFIG_CHOICE,
     .offset = KEY(color),
     .fallback = "green",
     .help = "One.",
     .choices = "red|green"},
    {.key = "colors",
     .type = CONFIG_CHOICES,
     .offset = KEY(colors),
     .fallback = "red, green",
     .help = "Some.",
     .choices = "red|green"},
    {.key = "list", .type = CONFIG_LIST, .offset = KEY(list), .fallback = "", .help = "Many."},
};
static const struct config_key other_keys[] = {
    {.key = "need",
     .type = CONFIG_TEXT,
     .offset = offsetof(struct other, need),
     .fallback = "x",
     .help = "Needed.",
     .flags = CONFIG_REQUIRED},
};

static const char *refuse_property(const char *key)
{
    return strcmp(key, "enable.auto.commit") == 0 ? "offsets live in Postgres" : NULL;
}

static const struct config_pair kafka_defaults[] = {{"group.id", "belfry", 0}, {0}};
static const struct config_section sections[] = {
    {.name = "work",
     .offset = offsetof(struct all, work),
     .keys = work_keys,
     .key_count = sizeof work_keys / sizeof *work_keys,
     .help = "Work."},
    {.name = "other",
     .offset = offsetof(struct all, other),
     .keys = other_keys,
     .key_count = 1,
     .help = "Other."},
    {.name = "kafka",
     .kind = CONFIG_PAIRS,
     .offset = offsetof(struct all, kafka),
     .help = "Any property.",
     .defaults = kafka_defaults,
     .refuse = refuse_property},
    {.name = "feed", .kind = CONFIG_NAMED, .offset = offsetof(struct all, feeds), .help = "A feed."},
};
static const struct config_table table = {sections, sizeof sections / sizeof *sections};

struct loaded {
    struct config config;
    struct all all;
    struct fault fault;
    enum status status;
    char path[64];
};

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

static void load(struct loaded *loaded, const char *file, char *const *environment,
                 const struct config_override *overrides, size_t count)
{
    memset(loaded, 0, sizeof *loaded);
    snprintf(loaded->path, sizeof loaded->path, "/tmp/belfry_config_%d.ini", (int)getpid());
    if (file != NULL)
        write_file(loaded->path, file, 0600);
    const struct config_input input = {.path = file == NULL ? NULL : loaded->path,
                                       .environment = environment,
                                       .overrides = overrides,
                                       .override_count = count};
    config_init(&loaded->config, &table);
    loaded->status = config_load(&loaded->config, &input, &loaded->all, &loaded->fault);
    unlink(loaded->path);
}

static void done(struct loaded *loaded)
{
    config_done(&loaded->config);
}

static char *dump(const struct loaded *loaded)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    config_dump(&loaded->config, &out);
    cr_assert_not(out.failed);
    return out.at;
}

Test(config, defaults)
{
    struct loaded l;
    load(&l, NULL, NULL, NULL, 0);
    cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
    cr_expect_str_eq(l.all.work.name, "belfry");
    cr_expect_str_eq(l.all.work.uri, "");
    cr_expect_str_eq(l.all.work.token, "");
    cr_expect_eq(l.all.work.wait_ms, 30000);
    cr_expect_eq(l.all.work.bytes, 4u << 20);
    cr_expect_eq(l.all.work.count, 7);
    cr_expect_eq(l.all.work.share, 1.0);
    cr_expect(l.all.work.fast);
    cr_expect_str_eq(l.all.work.listen.host, "127.0.0.1");
    cr_expect_eq(l.all.work.listen.port, 8080);
    cr_expect_eq(l.all.work.color, GREEN);
    cr_expect_eq(l.all.work.colors, 3);
    cr_expect_eq(l.all.work.list.count, 0);
    cr_assert_eq(l.all.kafka.count, 1);
    cr_expect_str_eq(config_pairs_find(&l.all.kafka, "group.id"), "belfry");
    cr_expect_eq(l.all.feeds.count, 0);
    done(&l);
}

Test(config, a_file_sets_every_type)
{
    struct loaded l;
    load(&l,
         "\xef\xbb\xbf# a comment\r\n; another\r\n\r\n[work]\r\n name = two words # not a comment \r\n"
         "uri = postgresql://u:p%40ss@h/db?x=y=z\nwait=15min\nbytes = 64KiB\ncount=100\nshare = 0.25\nfast = "
         "off\n"
         "listen = [::1]:0\ncolor = red\ncolors = green\nlist = a:b:/c, d  e\n"
         "[kafka]\nbootstrap.servers = a:1,b:2\nssl.key.pem = x\n[feed.posts]\nrelation = posts\npath = "
         "/posts\n"
         "[feed.empty]\n[work]\ntoken = t0k\n",
         NULL, NULL, 0);
    cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
    cr_expect_str_eq(l.all.work.name, "two words # not a comment");
    cr_expect_str_eq(l.all.work.uri, "postgresql://u:p%40ss@h/db?x=y=z");
    cr_expect_str_eq(l.all.work.token, "t0k");
    cr_expect_eq(l.all.work.wait_ms, 900000);
    cr_expect_eq(l.all.work.bytes, 65536);
    cr_expect_eq(l.all.work.count, 100);
    cr_expect_eq(l.all.work.share, 0.25);
    cr_expect_not(l.all.work.fast);
    cr_expect_str_eq(l.all.work.listen.host, "::1");
    cr_expect_eq(l.all.work.listen.port, 0);
    cr_expect_eq(l.all.work.color, RED);
    cr_expect_eq(l.all.work.colors, 1u << GREEN);
    cr_assert_eq(l.all.work.list.count, 3);
    cr_expect_str_eq(l.all.work.list.items[0], "a:b:/c");
    cr_expect_str_eq(l.all.work.list.items[2], "e");
    cr_expect_str_eq(config_pairs_find(&l.all.kafka, "bootstrap.servers"), "a:1,b:2");
    cr_expect_null(config_pairs_find(&l.all.kafka, "bootstrap"));
    cr_assert_eq(l.all.feeds.count, 2);
    cr_expect_str_eq(l.all.feeds.sections[0].name, "posts");
    cr_assert_eq(l.all.feeds.sections[0].count, 2);
    cr_expect_str_eq(l.all.feeds.sections[0].pairs[1].key, "path");
    cr_expect_eq(l.all.feeds.sections[0].pairs[1].line, 21);
    cr_expect_eq(l.all.feeds.sections[1].count, 0);
    done(&l);
}

Test(config, flags_over_environment_over_file)
{
    char *environment[] = {(char[]){"BELFRY_WORK_COUNT=20"},
                           (char[]){"BELFRY_WORK_NAME=from env"},
                           (char[]){"BELFRY_KAFKA_BOOTSTRAP_SERVERS=env:1"},
                           (char[]){"BELFRY_KAFKA_PORT_9092_TCP=tcp://10.0.0.1:9092"},
                           (char[]){"BELFRY_KAFKA_SERVICE_HOST=10.0.0.1"},
                           (char[]){"BELFRY_WORK_CUONT=3"},
                           (char[]){"BELFRY_TEST_POSTGRES=whatever"},
                           (char[]){"OTHER=1"},
                           NULL};
    const struct config_override overrides[] = {{"kafka", "bootstrap.servers", "flag:1", "brokers"},
                                                {"kafka", "linger.ms", "1", "property"},
                                                {"kafka", "linger.ms", "2", "property"},
                                                {"work", "name", "from flag", "topic"}};
    struct loaded l;
    load(&l, "[work]\ncount = 10\nname = from file\nwait = 1s\n[kafka]\nbootstrap.servers = file:1\n",
         environment, overrides, 4);
    cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
    cr_expect_eq(l.all.work.wait_ms, 1000);
    cr_expect_eq(l.all.work.count, 20);
    cr_expect_str_eq(l.all.work.name, "from flag");
    cr_expect_eq(l.all.kafka.count, 3);
    cr_expect_str_eq(config_pairs_find(&l.all.kafka, "bootstrap.servers"), "flag:1");
    cr_expect_str_eq(config_pairs_find(&l.all.kafka, "linger.ms"), "2");
    cr_assert_eq(l.config.warning_count, 1);
    cr_expect_str_eq(l.config.warnings[0], "BELFRY_WORK_CUONT: unknown key \"cuont\" in [work]; did you mean "
                                           "\"count\"?; it is not used");
    struct buffer line;
    buffer_init(&line, 4096);
    config_summary(&l.config, &line);
    cr_expect_str_eq(line.at, "work.name=from flag work.wait=1s work.count=20 kafka.bootstrap.servers=flag:1 "
                              "kafka.linger.ms=2");
    buffer_done(&line);
    done(&l);
}

Test(config, refuses_with_the_place_and_the_nearest_name)
{
    static const struct {
        const char *file, *text, *field;
    } cases[] = {
        {"[work]\nbyte = 1MiB\n", ":2: unknown key \"byte\" in [work]; did you mean \"bytes\"?", "work.byte"},
        {"[work]\n\nzzzzzzzz = 1\n", ":3: unknown key \"zzzzzzzz\" in [work]", "work.zzzzzzzz"},
        {"[work]\nneed = 1\n", ":2: [work] has no key \"need\"; it belongs in [other]", "work.need"},
        {"[wrok]\n", ":1: unknown section [wrok]; did you mean [work]?", "wrok"},
        {"[elsewhere]\n", ":1: unknown section [elsewhere]", "elsewhere"},
        {"[feed]\n", ":1: [feed] needs a name: [feed.NAME]", "feed"},
        {"[work]\ncount = 1\ncount = 2\n", ":3: [work] count is given twice, first at ", "work.count"},
        {"[feed.a]\n[feed.a]\n", ":2: [feed.a] itself is given twice", "feed.a"},
        {"count = 1\n", ":1: a key before the first [section]", ""},
        {"[work]\nnonsense\n", ":2: neither \"key = value\", nor [section], nor a comment", ""},
        {"[work\n", ":1: a section's head must end with ']'", ""},
        {"[work]\n= 1\n", ":2: not a key's name before '='", ""},
        {"[work]\nwait = 30\n",
         ":2: [work] wait: \"30\" is not a duration such as 300ms, 30s, 15min, 24h, 30d", "work.wait"},
        {"[work]\nwait = 1 s\n", "is not a duration", "work.wait"},
        {"[work]\nwait = -1s\n", "is not a duration", "work.wait"},
        {"[work]\nwait = 99999999999999999999s\n", "is not a duration", "work.wait"},
        {"[work]\nwait = 106751991168d\n", "is not a duration", "work.wait"},
        {"[work]\nwait = 2d\n", ":2: [work] wait: \"2d\" is outside 100ms to 1d", "work.wait"},
        {"[work]\nbytes = 4MB\n", "is not a size such as 64KiB, 4MiB", "work.bytes"},
        {"[work]\nbytes = 1GiB\n", "\"1GiB\" is outside 1KiB to 64MiB", "work.bytes"},
        {"[work]\ncount = 1.5\n", "is not a whole number", "work.count"},
        {"[work]\ncount =\n", "\"\" is not a whole number", "work.count"},
        {"[work]\ncount = 101\n", "\"101\" is outside 1 to 100", "work.count"},
        {"[work]\nshare = 0\n", "is not a share", "work.share"},
        {"[work]\nshare = 1.01\n", "is not a share", "work.share"},
        {"[work]\nshare = nan\n", "is not a share", "work.share"},
        {"[work]\nfast = yes\n", "\"yes\" is neither on nor off", "work.fast"},
        {"[work]\nlisten = 8080\n", "is not an address", "work.listen"},
        {"[work]\nlisten = h:65536\n", "is not an address", "work.listen"},
        {"[work]\nlisten = ::1:80\n", "is not an address", "work.listen"},
        {"[work]\nlisten = h:\n", "is not an address", "work.listen"},
        {"[work]\ncolor = blue\n", "\"blue\" is none of red|green", "work.color"},
        {"[work]\ncolor = re\n", "\"re\" is none of red|green", "work.color"},
        {"[work]\ncolors = red blue\n", "\"blue\" is none of red|green", "work.colors"},
        {"[work]\ncolors = ,\n", "at least one of red|green is needed", "work.colors"},
        {"[work]\nlist_file = /dev/null\n", "unknown key \"list_file\" in [work]", "work.list_file"},
        {"[work]\ntoken_file = /nonexistent\n", "[work] token_file: cannot read /nonexistent: No such file",
         "work.token"},
        {"[work]\ntoken_file = /dev/null\n", "/dev/null is empty", "work.token"},
        {"[work]\ntoken = a\ntoken_file = /dev/null\n", "[work] token is given twice", "work.token"},
        {"[kafka]\nenable.auto.commit = true\n",
         ":2: enable.auto.commit may not be set: offsets live in Postgres", "kafka.enable.auto.commit"},
        {"[kafka]\nlinger.ms_file = /dev/null\n", "only a secret may be given as a file", "kafka.linger.ms"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded l;
        load(&l, cases[i].file, NULL, NULL, 0);
        cr_expect_eq(l.status, ST_REJECT, "case %zu", i);
        cr_expect_not_null(strstr(l.fault.text, cases[i].text), "case %zu: %s", i, l.fault.text);
        cr_expect_str_eq(l.fault.field, cases[i].field, "case %zu", i);
        cr_expect(cases[i].text[0] != ':' || strncmp(l.fault.text, l.path, strlen(l.path)) == 0, "case %zu",
                  i);
        done(&l);
    }
}

Test(config, a_nul_byte_is_refused)
{
    struct config config;
    struct all all;
    struct fault fault;
    char path[64];
    snprintf(path, sizeof path, "/tmp/belfry_nul_%d", (int)getpid());
    FILE *file = fopen(path, "w");
    fwrite("[work]\nname = a\0b\n", 1, 18, file);
    fclose(file);
    config_init(&config, &table);
    const struct config_input input = {.path = path};
    cr_expect_eq(config_load(&config, &input, &all, &fault), ST_REJECT);
    cr_expect_not_null(strstr(fault.text, ":2: a NUL byte"));
    config_done(&config);
    unlink(path);
}

Test(config, what_is_required_depends_on_the_asker)
{
    struct loaded l;
    struct fault fault;
    load(&l, "[other]\nneed =\n[kafka]\nssl.key.location = /k\n", NULL, NULL, 0);
    cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
    cr_expect_eq(config_require(&l.config, "work", "name", &fault), ST_OK);
    cr_expect_eq(config_require(&l.config, "kafka", "ssl.key.location", &fault), ST_OK);
    cr_expect_eq(config_require(&l.config, "other", "need", &fault), ST_REJECT);
    cr_expect_str_eq(fault.text, "[other] need must be given, in the file (-F) or as BELFRY_OTHER_NEED");
    cr_expect_str_eq(fault.field, "other.need");
    cr_expect_eq(config_require(&l.config, "kafka", "bootstrap.servers", &fault), ST_REJECT);
    cr_expect_str_eq(fault.text, "[kafka] bootstrap.servers must be given, in the file (-F) or as "
                                 "BELFRY_KAFKA_BOOTSTRAP_SERVERS");
    done(&l);
}

Test(config, the_file_must_be_there)
{
    struct config config;
    struct all all;
    struct fault fault;
    config_init(&config, &table);
    const struct config_input input = {.path = "/nonexistent/x.ini"};
    cr_expect_eq(config_load(&config, &input, &all, &fault), ST_REJECT);
    cr_expect_str_eq(fault.text, "/nonexistent/x.ini: cannot be read: No such file or directory");
    config_done(&config);
}

Test(config, a_long_value_is_kept_whole)
{
    struct loaded l;
    char *file = malloc(20100), *expected = malloc(20001);
    memset(expected, 'x', 20000);
    expected[20000] = '\0';
    snprintf(file, 20100, "[work]\nuri = %s\n", expected);
    load(&l, file, NULL, NULL, 0);
    cr_assert_eq(l.status, ST_OK);
    cr_expect_str_eq(l.all.work.uri, expected);
    done(&l);
    free(file);
    free(expected);
}

Test(config, secrets_from_files_and_a_word_when_others_can_read_them)
{
    struct loaded l;
    char secret[64], file[256];
    snprintf(secret, sizeof secret, "/tmp/belfry_secret_%d", (int)getpid());
    write_file(secret, "s3cret\r\n", 0644);
    snprintf(file, sizeof file, "[work]\nuri_file = %s\ntoken_file = %s\n[kafka]\nsasl.password_file = %s\n",
             secret, secret, secret);
    load(&l, file, NULL, NULL, 0);
    cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
    cr_expect_str_eq(l.all.work.token, "s3cret");
    cr_expect_str_eq(l.all.work.uri, "s3cret", "a connection string holds a password: it may be a file too");
    cr_expect_str_eq(config_pairs_find(&l.all.kafka, "sasl.password"), "s3cret");
    cr_assert_eq(l.config.warning_count, 3);
    cr_expect_not_null(strstr(l.config.warnings[0], "can be read by others"));
    char *text = dump(&l);
    cr_expect_null(strstr(text, "s3cret"));
    cr_expect_not_null(strstr(text, "token_file = /tmp/"));
    free(text);
    done(&l);
    chmod(secret, 0600);
    char variable[128];
    snprintf(variable, sizeof variable, "BELFRY_WORK_TOKEN_FILE=%s", secret);
    char *environment[] = {variable, NULL};
    load(&l, "[work]\ntoken = inline\n", environment, NULL, 0);
    cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
    cr_expect_str_eq(l.all.work.token, "s3cret", "the environment wins");
    cr_expect_eq(l.config.warning_count, 0);
    done(&l);
    unlink(secret);
}

Test(config, a_dump_gives_the_same_values_again_and_hides_secrets)
{
    static const struct {
        const char *in, *out;
    } uris[] = {
        {"postgresql://u:pw@h:5432/db?a=b", "postgresql://u:****@h:5432/db?a=b"},
        {"postgresql://u:p@w:x@h/db", "postgresql://u:****@h/db"},
        {"postgresql://u@h/db?password=pw&sslmode=require",
         "postgresql://u@h/db?password=****&sslmode=require"},
        {"host=h password=pw dbname=d", "host=h password=**** dbname=d"},
        {"host=h PASSWORD = 'p w\\'x' sslpassword=y", "host=h PASSWORD = **** sslpassword=****"},
        {"password='open", "password=****"},
        {"host=password dbname=password", "host=password dbname=password"},
        {"https://h/a@b:c", "https://h/a@b:c"},
        {"https://h/a:b@c", "https://h/a:b@c"},
        {"postgresql://u:hu?sh@h/db", "postgresql://u:****@h/db"}, /* libpq reads it so */
        {"postgresql://u:hu/sh@h/db", "postgresql://u:****@h/db"},
        {"host=h password=hu&sh dbname=d", "host=h password=**** dbname=d"},
        {"host=h password=hu\\ sh dbname=d", "host=h password=**** dbname=d"},
        {"host=h password=hu sh dbname = d", "host=h password=**** dbname = d"},
        {"host=h password=hu://sh@x dbname=d", "host=h password=**** dbname=d"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        struct loaded l;
        char file[256], expected[256];
        snprintf(file, sizeof file,
                 "[work]\nuri = %s\ntoken = hush\n[kafka]\nsasl.password = hush\n[feed.a]\nx = y\n",
                 uris[i].in);
        load(&l, file, NULL, NULL, 0);
        cr_assert_eq(l.status, ST_OK, "%s", l.fault.text);
        char *text = dump(&l);
        snprintf(expected, sizeof expected, "\nuri =%s%s\n", uris[i].out[0] == '\0' ? "" : " ", uris[i].out);
        cr_expect_not_null(strstr(text, expected), "case %zu: %s", i, text);
        cr_expect_null(strstr(text, "hush"));
        cr_expect_null(strstr(text, "sh@"));
        cr_expect_not_null(strstr(text, "\ntoken = ****\n"));
        cr_expect_not_null(strstr(text, "\nsasl.password = ****\n"));
        cr_expect_not_null(strstr(text, "\n[feed.a]\nx = y\n"));
        done(&l);
        load(&l, text, NULL, NULL, 0);
        cr_expect_eq(l.status, ST_OK, "a dump can be read: %s", l.fault.text);
        char *again = dump(&l);
        cr_expect_str_eq(again, text);
        free(again);
        free(text);
        done(&l);
    }
}

Test(config, a_readable_file_with_a_secret_in_it_is_a_warning)
{
    struct config config;
    struct all all;
    struct fault fault;
    char path[64];
    snprintf(path, sizeof path, "/tmp/belfry_open_%d.ini", (int)getpid());
    static const struct {
        const char *text;
        size_t warnings;
    } cases[] = {{"[work]\nname = a\n", 0},
                 {"[work]\ntoken = a\n", 1},
                 {"[work]\nuri = host=h password=x\n", 1},
                 {"[kafka]\nsasl.password = x\n", 1},
                 {"[work]\nuri = postgresql://u:pw@h/d\n", 1},
                 {"[work]\nuri = postgresql://u@h/d\n", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(path, cases[i].text, 0644);
        config_init(&config, &table);
        const struct config_input input = {.path = path};
        cr_assert_eq(config_load(&config, &input, &all, &fault), ST_OK);
        cr_expect_eq(config.warning_count, cases[i].warnings, "case %zu", i);
        config_done(&config);
    }
    unlink(path);
}

Test(config, help_names_every_key_and_default)
{
    struct buffer out;
    buffer_init(&out, 65536);
    config_help(&table, &out);
    cr_expect_not_null(strstr(out.at, "[work]  Work.\n"));
    cr_expect_not_null(strstr(out.at, "[feed.NAME]  A feed.\n"));
    cr_expect_not_null(strstr(out.at, "token (or _file)"));
    for (size_t i = 0; i < sizeof work_keys / sizeof *work_keys; i++)
        cr_expect_not_null(strstr(out.at, work_keys[i].help), "%s", work_keys[i].key);
    cr_expect_not_null(strstr(out.at, "A wait. (30s)\n"));
    cr_expect_not_null(strstr(out.at, "Some. [red|green] (red, green)\n"));
    cr_expect_not_null(strstr(out.at, "Needed. (required)\n"));
    buffer_done(&out);
}

/* Whatever bytes come: no crash, no read outside the span (asan), lines in order. */
static enum status visit_any(void *context, const struct config_line *line, struct fault *fault)
{
    int *last = context;
    (void)fault;
    cr_assert_gt(line->number, *last);
    *last = line->number;
    return ST_OK;
}

Test(config, the_parser_survives_any_bytes)
{
    static const char alphabet[] = "[]=#;\n\r\t ab.\0\xef\xbb\xbf";
    uint64_t seed = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        char bytes[64];
        struct fault fault;
        int last = 0;
        size_t count = (size_t)round % sizeof bytes;
        char *exact = malloc(count + 1); /* asan sees a byte too far */
        for (size_t i = 0; i < count; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[i] = alphabet[seed % (sizeof alphabet - 1)];
        }
        char *tight = realloc(exact, count == 0 ? 1 : count);
        memcpy(tight, bytes, count);
        enum status status = config_parse((struct span){tight, count}, visit_any, &last, &fault);
        cr_assert(status == ST_OK || status == ST_REJECT);
        free(tight);
    }
}
