/* The words around ingest/replay: what is shown is where a record is and why it came there, never what is in
 * it. */
#include "dispatcher_replay.h"

#include <ctype.h>
#include <stdio.h>

#include "dispatcher_config.h"
#include "ingest/replay.h"
#include "model/timestamp.h"

/* In the order of enum replay_verdict. */
static const char *const left_why[REPLAY_VERDICTS] = {"",
                                                      "of another code",
                                                      "older",
                                                      "put back before",
                                                      "put back 3 times already",
                                                      "value cut, not whole",
                                                      "not of this dispatcher's topics",
                                                      "refused by their topic"};

/* Anyone who may write to the topic wrote these. */
static void print_safe(const char *text)
{
    for (; *text != '\0'; text++) {
        (void)putchar(iscntrl((unsigned char)*text) != 0 ? '?' : *text);
    }
}

static void show(void *context, const struct replay_shown *shown)
{
    const struct topics_settings *const *topics = context;
    printf("%s:%d=%lld from ", (*topics)->dlq, shown->dlq_partition, (long long)shown->dlq_offset);
    print_safe(shown->topic[0] == '\0' ? "?" : shown->topic);
    printf(":%d=%lld, ", shown->partition, (long long)shown->offset);
    print_safe(shown->code);
    if (shown->field[0] != '\0') {
        (void)putchar(' ');
        print_safe(shown->field);
    }
    printf(": ");
    print_safe(shown->message);
    if (shown->verdict == REPLAY_PUT_BACK) {
        printf(" (would be put back)\n");
    } else {
        printf(" (left: %s)\n", left_why[shown->verdict]);
    }
}

static void print_counts(const struct replay_counts *counts, bool dry_run)
{
    int64_t left = 0;
    printf("%s %lld", dry_run ? "would put back" : "put back",
           (long long)counts->by_verdict[REPLAY_PUT_BACK]);
    for (size_t i = 0; i < counts->code_count; i++) {
        printf("%s", i == 0 ? ": " : ", ");
        print_safe(counts->codes[i].code);
        printf(" %lld", (long long)counts->codes[i].count);
    }
    for (size_t i = REPLAY_PUT_BACK + 1; i < REPLAY_VERDICTS; i++) {
        left += counts->by_verdict[i];
    }
    printf("\nleft %lld", (long long)left);
    const char *before = ": ";
    for (size_t i = REPLAY_PUT_BACK + 1; i < REPLAY_VERDICTS; i++) {
        if (counts->by_verdict[i] > 0) {
            printf("%s%lld %s", before, (long long)counts->by_verdict[i], left_why[i]);
            before = ", ";
        }
    }
    printf("\n");
}

static enum status read_since(struct frame *frame, int64_t *since_us, struct fault *fault)
{
    const char *text = options_value(frame->options, "since", 0);
    *since_us = INT64_MIN;
    if (text == NULL || timestamp_parse(span_of(text), since_us)) {
        return ST_OK;
    }
    fault_set(fault, "usage", "--since %s: a time with an offset, as 2026-03-21T09:00:00Z", text);
    fault->exit_code = EXIT_USAGE;
    return ST_FATAL;
}

static enum status require(const struct frame *frame, const char *section, const char *key,
                           struct fault *fault)
{
    enum status status = config_require(frame->config, section, key, fault);
    if (status != ST_OK) {
        fault->exit_code = EXIT_USAGE;
    }
    return status;
}

enum status dispatcher_replay(struct frame *frame, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    const struct topics_settings *topics = &settings->topics;
    struct db_settings database = {.uri = settings->database.uri,
                                   .application_name = "belfry-dispatcher-replay",
                                   .role = DB_ROLE_DISPATCHER,
                                   .prepared_statements = settings->database.prepared_statements};
    struct replay_setup setup = {.topics = topics,
                                 .database = &database,
                                 .kafka = &settings->kafka.properties,
                                 .code = options_value(frame->options, "code", 0),
                                 .dry_run = options_given(frame->options, "dry-run"),
                                 .context = &topics};
    setup.show = setup.dry_run ? show : NULL;
    struct replay_counts counts;
    enum status status = read_since(frame, &setup.since_us, fault);
    if (status == ST_OK) {
        status = require(frame, "kafka", "bootstrap.servers", fault);
    }
    if (status == ST_OK) {
        status = require(frame, "database", "uri", fault);
    }
    if (status != ST_OK) {
        return status;
    }
    status = replay_run(&setup, &counts, fault);
    print_counts(&counts, setup.dry_run);
    return status;
}
