/* The real binaries, run: what they print and with what they exit. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 64 * 1024 };

/* Runs a shell line with both outputs into one text; the exit code. */
static int run(const char *line, char *output)
{
    char command[4096];
    snprintf(command, sizeof command, "cd " BELFRY_BUILD_DIR "/src/bin && { %s; } 2>&1 </dev/null", line);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t bytes = fread(output, 1, OUTPUT_MAX - 1, pipe);
    output[bytes] = '\0';
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s: %s", line, output);
    return WEXITSTATUS(status);
}

#define DISPATCHER "env -i ./belfry-dispatcher "
#define GIVEN                                                                                                \
    "env -i BELFRY_DATABASE_URI=postgresql://u:hush@h/d BELFRY_PROVIDER_BASE_URL=http://h "                  \
    "./belfry-dispatcher -b h:1 "

Test(bin_run, what_a_line_prints_and_exits_with)
{
    static const struct {
        const char *line;
        int code;
        const char *text;
    } cases[] = {
        {DISPATCHER "--help", 0, "Usage: belfry-dispatcher [flags]\n"},
        {DISPATCHER "-h", 0, "batch_max_events             events a statement (1000)\n"},
        {"env -i ./belfry-reconciler --help", 0, "Usage: belfry-reconciler [flags]\n"},
        {"env -i ./belfry-reader --help", 0, "Flags of page:\n"},
        {DISPATCHER "--version", 0, "belfry-dispatcher " BELFRY_VERSION "\n"},
        {DISPATCHER "-V", 0, "belfry-dispatcher " BELFRY_VERSION "\n"},
        {"env -i ./belfry-dispatcher-crash -V", 0, "belfry-dispatcher " BELFRY_VERSION "\n"},
        {DISPATCHER "--no-such", 2,
         "belfry-dispatcher: unknown flag --no-such; belfry-dispatcher --help says more\n"},
        {DISPATCHER "--confg x", 2, "unknown flag --confg; did you mean --config?; "},
        {DISPATCHER "--dry-run", 2, "--dry-run goes with --replay-dlq; "},
        {DISPATCHER "--partitions 3", 2, "--partitions goes with --create-topics; "},
        {GIVEN "--seek belfry.events:0=1 --seek nonsense", 2, "--seek nonsense: TOPIC:PARTITION=OFFSET"},
        {GIVEN "--seek other:0=1", 2, "--seek other: this dispatcher reads belfry.events and belfry.devices"},
        {DISPATCHER "--check-config -X bootstrp.servers=h:1", 2,
         "[kafka] bootstrp.servers: librdkafka has no such property\n"},
        {DISPATCHER "-b", 2, "-b needs a value"},
        {DISPATCHER "", 2,
         "[kafka] bootstrap.servers must be given, in the file (-F) or as BELFRY_KAFKA_BOOTSTRAP_SERVERS\n"},
        {DISPATCHER "--check-config -b h:1", 2,
         "[database] uri must be given, in the file (-F) or as BELFRY_DATABASE_URI\n"},
        {GIVEN "--check-config", 0, "belfry-dispatcher: the configuration is good\n"},
        {"env -i BELFRY_DATABASE_URI=host=x BELFRY_RUN_ROLES=ingest ./belfry-dispatcher -bh:1 --check-config",
         0, "good"},
        {GIVEN "--check-config -X no.such=1", 2, "[kafka] no.such: librdkafka has no such property\n"},
        {GIVEN "--check-config -X linger.ms=soon", 2, "[kafka] linger.ms: "},
        {GIVEN "--check-config -X enable.auto.commit=true", 2,
         "enable.auto.commit may not be set: the database holds the offsets"},
        {GIVEN "--check-config -X metadata.broker.list=h:1", 2, "use bootstrap.servers"},
        {GIVEN "--dump-config", 0, "uri = postgresql://u:****@h/d\n"},
        {GIVEN "--dump-config -X sasl.password=hush -qG g", 0, "\nsasl.password = ****\n"},
        {GIVEN "--dump-config -t other", 0, "\nevents = other\n"},
        {GIVEN "--dump-config -v", 0, "\nlog_level = debug\n"},
        {GIVEN "--dump-config -qv", 0, "\nlog_level = warn\n"},
        {"env -i BELFRY_INGEST_BATCH_MAX_EVENTS=0 ./belfry-dispatcher --check-config", 2,
         "BELFRY_INGEST_BATCH_MAX_EVENTS: [ingest] batch_max_events: \"0\" is outside 1 to 10000\n"},
        {DISPATCHER "--check-config -F /nonexistent.ini", 2,
         "/nonexistent.ini: cannot be read: No such file or directory\n"},
        {DISPATCHER "--check-config -F " BELFRY_SOURCE_DIR "/config/belfry-dispatcher.ini", 0, "good"},
        {"env -i ./belfry-reader --check-config -F " BELFRY_SOURCE_DIR "/config/belfry-dispatcher.ini", 2,
         "belfry-dispatcher.ini:14: unknown section [kafka]"},
        {"f=$(mktemp); printf '[ingest]\\n\\nbatch_max_event = 7\\n' >$f; env -i ./belfry-dispatcher "
         "--check-config -F $f; "
         "c=$?; rm $f; exit $c",
         2, ":3: unknown key \"batch_max_event\" in [ingest]; did you mean \"batch_max_events\"?\n"},
        {"env -i BELFRY_INGEST_BATCH_MAX_EVENT=7 BELFRY_DATABASE_URI=host=x "
         "BELFRY_PROVIDER_BASE_URL=http://y "
         "./belfry-dispatcher -bh:1 "
         "--check-config",
         0, "warning: BELFRY_INGEST_BATCH_MAX_EVENT: unknown key"},
        {"env -i ./belfry-reader -b h:1", 2, "unknown flag -b"},
        {"env -i ./belfry-reader pages", 2, "unknown command \"pages\""},
    };
    char *output = malloc(OUTPUT_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = run(cases[i].line, output);
        cr_expect_eq(code, cases[i].code, "%s: exit %d: %s", cases[i].line, code, output);
        cr_expect_not_null(strstr(output, cases[i].text), "%s: %s", cases[i].line, output);
        cr_expect_null(strstr(output, "hush"), "%s: %s", cases[i].line, output);
    }
    printf("%zu command lines\n", sizeof cases / sizeof *cases);
    free(output);
}

Test(bin_run, a_dump_is_a_file_that_can_be_read)
{
    char *output = malloc(OUTPUT_MAX);
    int code =
        run("f=$(mktemp) && " DISPATCHER "--dump-config -F " BELFRY_SOURCE_DIR
            "/config/belfry-dispatcher.ini >$f && " DISPATCHER "--check-config -F $f; c=$?; rm $f; exit $c",
            output);
    cr_expect_eq(code, 0, "%s", output);
    free(output);
}

Test(bin_run, a_closed_stdout_is_a_failure)
{
    char *output = malloc(OUTPUT_MAX);
    int code = run(DISPATCHER "--help >/dev/full", output);
    cr_expect_eq(code, 1, "%s", output);
    free(output);
}
