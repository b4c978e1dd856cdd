/* A database in, a report out. Always holds: nothing is written; the snapshot is closed before anything is
 * waited for; what is only late is never a finding. A crash here means nothing to anybody. */
#include "reconcile/inspect.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/kafka.h"
#include "store/offsets.h"
#include "store/schema.h"

enum { LOOK_MS = 200, ANSWER_SLACK_MS = 30 * 1000 };

/* ---- the look ------------------------------------------------------------------------------------------ */

static enum status look_at_dispatches(const struct clock *clock, struct db *db, struct audit_report *report,
                                      struct fault *fault)
{
    int64_t until_ms = clock_monotonic_ms(clock) + INSPECT_MS, after = INT64_MIN;
    bool more = true;
    enum status status = ST_OK;
    while (status == ST_OK && more) {
        if (clock_monotonic_ms(clock) > until_ms) {
            fault_set(fault, "time", "not done after %d minutes, at dispatch %lld", INSPECT_MS / 60000,
                      (long long)after);
            return ST_STOP;
        }
        status = audit_dispatches(db, &after, &more, report, fault);
    }
    return status;
}

static enum status look(const struct inspect_setup *setup, const struct clock *clock, struct db *db,
                        struct audit_report *report, struct fault *fault)
{
    int64_t shorter_ms = setup->key_retention_ms < setup->notification_retention_ms
                             ? setup->key_retention_ms
                             : setup->notification_retention_ms;
    enum status status = audit_begin(db, INSPECT_STATEMENT_MS, fault);
    if (status == ST_OK)
        status = audit_books(db, report, fault);
    if (status == ST_OK)
        status = audit_queues(db, report, fault);
    if (status == ST_OK)
        status = look_at_dispatches(clock, db, report, fault);
    if (status == ST_OK)
        status = audit_devices(db, report, fault);
    if (status == ST_OK)
        status = audit_erased(db, report, fault);
    if (status == ST_OK)
        status = audit_keys(db, shorter_ms, report, fault);
    return status == ST_OK ? audit_end(db, fault) : status;
}

/* ---- the second look ----------------------------------------------------------------------------------- */

/* Where the receipts topic ends, partition by partition. */
struct ends {
    struct kafka_watermarks marks[OFFSET_PARTS_MAX];
    struct offsets_seat seats[OFFSET_PARTS_MAX];
    size_t count;
};

static enum status read_ends(const struct inspect_setup *setup, struct ends *ends, struct fault *fault)
{
    const struct kafka_client_options options = {.properties = setup->kafka,
                                                 .client_name = "belfry-reconciler-audit"};
    struct kafka_admin *admin = NULL;
    int partitions = 0;
    enum status status = kafka_admin_open(&options, &admin, fault);
    if (status == ST_OK)
        status = kafka_admin_partitions(admin, setup->receipts_topic, &partitions, fault);
    if (status == ST_OK && partitions > OFFSET_PARTS_MAX) {
        fault_set(fault, "partitions", "topic %s has %d partitions", setup->receipts_topic, partitions);
        status = ST_STOP;
    }
    for (ends->count = 0; status == ST_OK && ends->count < (size_t)partitions; ends->count++) {
        int32_t partition = (int32_t)ends->count;
        ends->seats[partition].partition = partition;
        status =
            kafka_admin_watermarks(admin, setup->receipts_topic, partition, &ends->marks[partition], fault);
    }
    kafka_admin_close(admin);
    return status;
}

/* Records of the topic that the reconcilers have not read yet. */
static int64_t left_to_read(const struct ends *ends)
{
    int64_t left = 0;
    for (size_t i = 0; i < ends->count; i++) {
        int64_t next = ends->seats[i].next_offset;
        next = next < ends->marks[i].low ? ends->marks[i].low : next;
        left += ends->marks[i].high > next ? ends->marks[i].high - next : 0;
    }
    return left;
}

/* Until the reconcilers have read to where the topic ended. */
static enum status wait_drained(const struct inspect_setup *setup, const struct clock *clock, struct db *db,
                                struct ends *ends, struct fault *fault)
{
    const char *group = config_pairs_find(setup->kafka, "group.id");
    const struct offsets_scope scope = {.group_id = group == NULL ? "" : group,
                                        .topic = setup->receipts_topic};
    int64_t until_ms = clock_monotonic_ms(clock) + INSPECT_DRAIN_MS;
    for (;;) {
        enum status status = offsets_read(db, &scope, ends->seats, ends->count, fault);
        if (status != ST_OK)
            return status;
        int64_t left = left_to_read(ends);
        if (left == 0)
            return ST_OK;
        if (clock_monotonic_ms(clock) >= until_ms) {
            fault_set(fault, "behind", "the reconcilers are %lld outcomes behind", (long long)left);
            return ST_RETRY;
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

static enum status judge_suspects(const struct inspect_setup *setup, const struct clock *clock, struct db *db,
                                  struct audit_report *report, struct fault *fault)
{
    struct ends *ends = calloc(1, sizeof *ends);
    if (ends == NULL) {
        fault_set(fault, "memory", "no memory");
        return ST_RETRY;
    }
    enum status status = read_ends(setup, ends, fault);
    if (status == ST_OK)
        status = wait_drained(setup, clock, db, ends, fault);
    free(ends);
    return status == ST_OK ? audit_still_queued(db, report, fault) : status;
}

enum status inspect_run(const struct inspect_setup *setup, struct inspect *inspect, struct fault *fault)
{
    const struct clock *clock = setup->clock == NULL ? &clock_system : setup->clock;
    const struct db_settings settings = {.uri = setup->uri,
                                         .application_name = "belfry-reconciler-audit",
                                         .role = DB_ROLE_ANY,
                                         .prepared_statements = setup->prepared_statements,
                                         .answer_timeout_ms = INSPECT_STATEMENT_MS + ANSWER_SLACK_MS,
                                         .clock = clock};
    struct db *db = NULL;
    *inspect = (struct inspect){.unjudged = ""};
    enum status status = db_open(&settings, &db, fault);
    if (status == ST_OK)
        status = store_check_schema(db, fault);
    if (status == ST_OK)
        status = look(setup, clock, db, &inspect->report, fault);
    if (status == ST_OK && inspect->report.suspects.count > 0) {
        struct fault why;
        if (judge_suspects(setup, clock, db, &inspect->report, &why) != ST_OK)
            (void)snprintf(inspect->unjudged, sizeof inspect->unjudged, "%s", why.text);
    }
    db_close(db);
    return status;
}
