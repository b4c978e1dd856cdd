/* Command lines, by table: what each gives, and what each refusal says. */
#include "base/options.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct option_row rows[] = {
    {0, false, "create-topics", NULL, "create", NULL, NULL},
    {0, true, "seek", "TOPIC:PARTITION=OFFSET|end", "seek", NULL, NULL},
    {0, false, "check-events", "FILE", "check", NULL, NULL},
};
static const struct option_row page_rows[] = {
    {0, false, "feed", "NAME", "feed", NULL, NULL},
    {'n', false, "limit", "N", "limit", NULL, NULL},
};
static const struct option_command commands[] = {{"page", "print a page", page_rows, 2}};
static const struct options_table full = {OPTIONS_KAFKA, "events", rows, 3, commands, 1};
static const struct options_table bare = {0};

enum { WORDS = 12 };

static enum status parse(const struct options_table *table, const char *line, struct options *options,
                         struct fault *fault, char *storage)
{
    char *argv[WORDS] = {(char[]){"program"}};
    int argc = 1;
    strcpy(storage, line);
    for (char *word = strtok(storage, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    return options_parse(table, argc, argv, options, fault);
}

static void write_overrides(const struct options *options, char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < options->override_count; i++) {
        const struct config_override *o = &options->overrides[i];
        snprintf(text + strlen(text), bytes - strlen(text), "%s.%s=%s;", o->section, o->key, o->value);
    }
}

Test(options, what_a_line_gives)
{
    static const struct {
        const char *line, *overrides;
        enum options_action action;
        int quiet, verbose;
        const char *path;
    } cases[] = {
        {"", "", OPTIONS_RUN, 0, 0, NULL},
        {"-b h:1 -G g -t top", "kafka.bootstrap.servers=h:1;kafka.group.id=g;topics.events=top;", OPTIONS_RUN,
         0, 0, NULL},
        {"-bh:1 -Gg", "kafka.bootstrap.servers=h:1;kafka.group.id=g;", OPTIONS_RUN, 0, 0, NULL},
        {"--brokers=h:1 --group g", "kafka.bootstrap.servers=h:1;kafka.group.id=g;", OPTIONS_RUN, 0, 0, NULL},
        {"-X a.b=c=d -X a.b= -Xe=f", "kafka.a.b=c=d;kafka.a.b=;kafka.e=f;", OPTIONS_RUN, 0, 0, NULL},
        {"-qv -v -F x.ini", "", OPTIONS_RUN, 1, 2, "x.ini"},
        {"-vFx.ini", "", OPTIONS_RUN, 0, 1, "x.ini"},
        {"-F -", "", OPTIONS_RUN, 0, 0, "-"},
        {"--config=x.ini --check-config", "", OPTIONS_CHECK_CONFIG, 0, 0, "x.ini"},
        {"--dump-config", "", OPTIONS_DUMP_CONFIG, 0, 0, NULL},
        {"--dump-config -V --check-config", "", OPTIONS_VERSION, 0, 0, NULL},
        {"-V -h", "", OPTIONS_HELP, 0, 0, NULL},
        {"--help --version", "", OPTIONS_HELP, 0, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options options;
        struct fault fault = {0};
        char storage[256], overrides[256];
        cr_assert_eq(parse(&full, cases[i].line, &options, &fault, storage), ST_OK, "%s: %s", cases[i].line,
                     fault.text);
        write_overrides(&options, overrides, sizeof overrides);
        cr_expect_str_eq(overrides, cases[i].overrides, "%s", cases[i].line);
        cr_expect_eq(options.action, cases[i].action, "%s", cases[i].line);
        cr_expect_eq(options.quiet, cases[i].quiet, "%s", cases[i].line);
        cr_expect_eq(options.verbose, cases[i].verbose, "%s", cases[i].line);
        cr_expect_eq(options.config_path == NULL, cases[i].path == NULL);
        if (cases[i].path != NULL)
            cr_expect_str_eq(options.config_path, cases[i].path);
        options_done(&options);
    }
}

Test(options, the_binarys_own_flags_and_commands)
{
    struct options options;
    struct fault fault;
    char storage[256];
    cr_assert_eq(parse(&full, "--seek a:1=5 --create-topics --seek b:2=end", &options, &fault, storage),
                 ST_OK);
    cr_expect(options_given(&options, "create-topics"));
    cr_expect_not(options_given(&options, "check-events"));
    cr_expect_str_eq(options_value(&options, "seek", 0), "a:1=5");
    cr_expect_str_eq(options_value(&options, "seek", 1), "b:2=end");
    cr_expect_null(options_value(&options, "seek", 2));
    cr_expect_null(options.command);
    options_done(&options);
    cr_assert_eq(parse(&full, "-F x.ini page --feed notifications -n 5 -q", &options, &fault, storage),
                 ST_OK);
    cr_assert_not_null(options.command);
    cr_expect_str_eq(options.command->name, "page");
    cr_expect_str_eq(options_value(&options, "limit", 0), "5");
    cr_expect_eq(options.quiet, 1);
    options_done(&options);
}

Test(options, refusals)
{
    static const struct {
        const struct options_table *table;
        const char *line, *text;
    } cases[] = {
        {&full, "--nope", "unknown flag --nope"},
        {&full, "-Z", "unknown flag -Z"},
        {&full, "-b", "-b needs a value"},
        {&full, "--seek", "--seek needs a value"},
        {&full, "--create-topics=yes", "--create-topics takes no value"},
        {&full, "--create-topics --create-topics", "--create-topics is given twice"},
        {&full, "-b a:1 --brokers b:1", "--brokers is given twice"},
        {&full, "-F a -F b", "--config is given twice"},
        {&full, "-X novalue", "-X takes NAME=VALUE"},
        {&full, "-X =value", "-X takes NAME=VALUE"},
        {&full, "pages", "unknown command \"pages\""},
        {&full, "page again", "unexpected argument \"again\""},
        {&full, "--feed x page", "unknown flag --feed"},
        {&full, "page -- --feed", "unexpected argument \"--feed\""},
        {&bare, "-b h:1", "unknown flag -b"},
        {&bare, "-t x", "unknown flag -t"},
        {&bare, "word", "unexpected argument \"word\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options options;
        struct fault fault = {0};
        char storage[256];
        cr_expect_eq(parse(cases[i].table, cases[i].line, &options, &fault, storage), ST_REJECT, "%s",
                     cases[i].line);
        cr_expect_str_eq(fault.text, cases[i].text);
        cr_expect_eq(fault.exit_code, EXIT_USAGE);
    }
}

Test(options, too_many_properties_are_refused)
{
    char *argv[2 + 2 * OPTIONS_OVERRIDES_MAX + 2] = {(char[]){"program"}};
    char property[] = "-Xa=b";
    int argc = 1;
    struct options options;
    struct fault fault;
    for (int i = 0; i <= OPTIONS_OVERRIDES_MAX; i++)
        argv[argc++] = property;
    cr_expect_eq(options_parse(&full, argc, argv, &options, &fault), ST_REJECT);
    cr_expect_not_null(strstr(fault.text, "too many flags"));
}

Test(options, help_shows_what_there_is)
{
    struct buffer out;
    buffer_init(&out, 65536);
    options_help(&full, "belfry-x", "does x", &out);
    static const char *const expected[] = {"belfry-x: does x\n",
                                           "Usage: belfry-x [flags]\n",
                                           "belfry-x page [flags]    print a page",
                                           "  -b, --brokers HOST:PORT,...",
                                           "      --check-config ",
                                           "      --seek TOPIC:PARTITION=OFFSET|end",
                                           "Flags of page:\n      --feed NAME",
                                           "  -n, --limit N",
                                           "  -t, --topic"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_expect_not_null(strstr(out.at, expected[i]), "%s", expected[i]);
    buffer_reset(&out);
    options_help(&bare, "belfry-y", "does y", &out);
    cr_expect_null(strstr(out.at, "--brokers"));
    cr_expect_null(strstr(out.at, "--topic"));
    buffer_done(&out);
}
