/* Settled outcomes: the topic against the table. Whatever is killed, frozen or away, the topic's highest
 * version of each dispatch is the row of `dispatches`, and so is the last record of each key, which
 * compaction keeps. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/kafka.h"
#include "system/chaos.h"
#include "system/hand.h"

enum { EVENT_RECIPIENTS = 100, USERS = 1000, TOPIC_MAX = 128, TEXT_MAX = 1 << 20, SQL_MAX = 12 << 10 };

struct settled {
    struct chaos c; /* of which only the case with a broker of its own uses more than the world */
    char topic[TOPIC_MAX];
    char ini[512];
};

static void make_topic(struct settled *s, bool create)
{
    snprintf(s->topic, sizeof s->topic, "%.110s-settled", s->c.w.receipts);
    snprintf(s->ini, sizeof s->ini,
             "[topics]\nsettled_topic = %s\n[reconciler]\nreceipt_delay = 0\npoll_interval = 200ms\n"
             "lease = 1s\nreceipt_max_age = 1s\n",
             s->topic);
    if (create)
        world_create_topic(&s->c.w, s->topic, 4);
}

static struct settled *open_settled(const char *name, bool create)
{
    struct settled *s = calloc(1, sizeof *s);
    cr_assert_not_null(s);
    struct world *w = &s->c.w;
    hand_open(w, name, 4);
    make_topic(s, create);
    return s;
}

static void close_settled(struct settled *s)
{
    world_check_books(&s->c.w);
    world_delete_topic(&s->c.w, s->topic);
    world_close(&s->c.w);
    free(s);
}

/* ---- dispatches by hand ---------------------------------------------------------------------------------
 */

/* Queued an hour ago; sent ones have tickets the provider does not know, and so expire at the first look. */
#define LONG_AGO "now() - interval '1 h'"

static void put_sent(struct world *w, int batches, int each)
{
    hand_put_sent(w,
                  &(struct hand_sent){.batch = 1, .batches = batches, .each = each, .queued_at = LONG_AGO});
}

/* What a dispatcher would say of every dispatch for which `where` holds. */
static int tell(struct world *w, const char *error, const char *where)
{
    char *text = malloc(TEXT_MAX), *save = NULL;
    cr_assert_not_null(text);
    world_text(
        w, text, TEXT_MAX,
        "SELECT string_agg(json_build_object('v', 1, 'dispatch_id', d.id::text, 'notification_id',"
        " n.id, 'workspace_id', n.workspace_id, 'recipient_user_id', n.recipient_user_id, 'device_id',"
        " d.device_id::text, 'outcome', 'failed', 'error', '%s', 'attempt', 1, 'at', now())::text, E'\\n')"
        " FROM dispatches d JOIN notifications n ON n.id = d.notification_id WHERE %s",
        error, where);
    cr_assert(strlen(text) < TEXT_MAX - 1, "too much to tell");
    int told = 0;
    for (char *row = strtok_r(text, "\n", &save); row != NULL; row = strtok_r(NULL, "\n", &save), told++)
        world_produce_fast(w, w->receipts, -1, "late", row);
    world_flush(w);
    free(text);
    return told;
}

/* ---- the topic against the table -------------------------------------------------------------------------
 */

struct reading {
    struct world *w;
    char sql[SQL_MAX];
    size_t bytes;
    int64_t records;
};

static void write_rows(struct reading *r)
{
    if (r->bytes > 0)
        world_exec(r->w, "INSERT INTO published VALUES %s", r->sql);
    r->bytes = 0;
}

static void read_record(void *context, const struct world_record *record)
{
    struct reading *r = context;
    char row[2048];
    int bytes = snprintf(row, sizeof row, "%s(%d, %lld, '%s', $r$%s$r$)", r->bytes > 0 ? "," : "",
                         record->partition, (long long)record->offset, record->key, record->value);
    cr_assert(bytes > 0 && (size_t)bytes < sizeof row && record->value != NULL);
    if (r->bytes + (size_t)bytes >= sizeof r->sql - 1) {
        write_rows(r);
        read_record(context, record);
        return;
    }
    memcpy(r->sql + r->bytes, row, (size_t)bytes + 1);
    r->bytes += (size_t)bytes;
    r->records++;
}

/* Reads the whole topic into the table `published` and compares. */
static void compare(struct settled *s, const char *what)
{
    struct world *w = &s->c.w;
    struct reading reading = {.w = w};
    world_exec(w, "CREATE TABLE IF NOT EXISTS published (part int, off bigint, key text, value json);"
                  "TRUNCATE published");
    world_read_topic(w, s->topic, read_record, &reading);
    write_rows(&reading);
    world_exec(w, "ANALYZE published");
    int64_t wrong[2];
    static const char *const order[] = {"(value ->> 'version')::int DESC, off DESC", "off DESC"};
    for (int i = 0; i < 2; i++)
        wrong[i] = world_count(
            w,
            "SELECT count(*) FROM (SELECT DISTINCT ON (key) key, value FROM published ORDER BY key, %s) p"
            " FULL JOIN (SELECT d.id::text AS key, belfry_settled_record(d.id, d.notification_id,"
            " n.workspace_id, n.recipient_user_id, d.device_id, d.state, d.error, d.updated_at) AS value"
            " FROM dispatches d JOIN notifications n ON n.id = d.notification_id) t USING (key)"
            " WHERE p.value::text IS DISTINCT FROM t.value::text",
            order[i]);
    int64_t keys = world_count(w, "SELECT count(DISTINCT key) FROM published");
    int64_t odd = world_count(w, "SELECT count(*) FROM published WHERE value ->> 'dispatch_id' <> key"
                                 " OR value::text ~ 'ExponentPushToken'");
    char states[512];
    world_text(w, states, sizeof states,
               "SELECT string_agg(n || ' ' || state || coalesce('/' || error, ''), ', ' ORDER BY n DESC)"
               " FROM (SELECT state, error, count(*) AS n FROM dispatches GROUP BY 1, 2) s");
    printf("%s: %lld records of %lld dispatches in the topic (%lld superseded or repeated); rows that "
           "differ: %lld"
           " by highest version, %lld by last record\n  %s\n",
           what, (long long)reading.records, (long long)keys, (long long)(reading.records - keys),
           (long long)wrong[0], (long long)wrong[1], states);
    cr_assert_eq(wrong[0], 0);
    cr_assert_eq(wrong[1], 0);
    cr_assert_eq(odd, 0);
    HAND_COUNT(w, keys, "SELECT count(*) FROM dispatches");
}

/* ---- kill -9 at every point
 * -------------------------------------------------------------------------------- */

/* Users in turns: five whose pushes are delivered, and one each of a receipt with an error, a ticket with an
 * error, a token that is none, and no receipt ever. */
static void put_users(struct world *w)
{
    world_exec(
        w,
        "INSERT INTO device_tokens (token, user_id, platform) SELECT CASE u %% 9 WHEN 0 THEN"
        " 'ExponentPushToken[bad-' || u || ']' WHEN 1 THEN 'ExponentPushToken[tick-' || u || ']' WHEN 2"
        " THEN 'garbage-' || u WHEN 3 THEN 'ExponentPushToken[none-' || u || ']' ELSE"
        " 'ExponentPushToken[ok-' || u || ']' END, 'u' || u, 'ios' FROM generate_series(0, %d) u",
        USERS - 1);
    simulator_script(w,
                     "[{\"when\":{\"token\":\"[bad-\"},\"do\":{\"receipt_error\":\"MessageRateExceeded\"}},"
                     "{\"when\":{\"token\":\"[tick-\"},\"do\":{\"ticket_error\":\"MessageTooBig\"}},"
                     "{\"when\":{\"token\":\"[none-\"},\"do\":{\"receipt_delay_ms\":3600000}}]");
}

static void put_events(struct world *w, int from, int count)
{
    char json[8192];
    for (int event = from; event < from + count; event++) {
        size_t at =
            (size_t)snprintf(json, sizeof json,
                             "{\"run_id\":\"run-%d\",\"event_type\":\"t\",\"workspace_id\":\"w \\\" é\","
                             "\"title\":\"a title\"%s,\"recipients\":[",
                             event, event % 8 == 0 ? ",\"push\":false" : "");
        for (int i = 0; i < EVENT_RECIPIENTS; i++)
            at += (size_t)snprintf(json + at, sizeof json - at, "%s\"u%d\"", i > 0 ? "," : "",
                                   (event * EVENT_RECIPIENTS + i) % USERS);
        snprintf(json + at, sizeof json - at, "]}");
        world_produce_fast(w, w->events, -1, NULL, json);
    }
    world_flush(w);
}

Test(settled, crash_points, .timeout = 400)
{
    static const char *const points[] = {
        "publish_topic", "publish_lease:2", "publish_take:3", "publish_send",   "publish_send:3",
        "publish_sent",  "publish_sent:3",  "publish_done",   "publish_done:2", "settle_outbox:2",
        "drain:2",       "drained:2",       "poll:2"};
    enum { POINTS = sizeof points / sizeof points[0], EVENTS = 16, ALL = POINTS * EVENTS * EVENT_RECIPIENTS };
    struct settled *s = open_settled("settled_crash", true);
    struct world *w = &s->c.w;
    char ini[256];
    put_users(w);
    snprintf(ini, sizeof ini, "[topics]\nsettled_topic = %s\n", s->topic);
    struct child *dispatcher = world_dispatcher(w, ini);
    int late = 0;
    for (int i = 0; i < POINTS; i++) {
        simulator_script(w, "{\"when\":{\"next\":2},\"do\":{\"close\":\"before_reply\"}}");
        put_events(w, i * EVENTS, EVENTS);
        struct child *victim = world_reconciler_crash(w, s->ini, points[i]);
        late +=
            tell(w, "ProviderRejected", "d.state = 'failed' AND d.error = 'Unconfirmed' AND d.id % 2 = 1");
        cr_assert_eq(child_wait(victim, 60), 128 + SIGKILL, "%s", points[i]);
    }
    world_wait_drained(w, w->group, w->events, 60);
    struct child *stays = world_reconciler(w, s->ini);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    world_wait_count(w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
    late += tell(w, "ProviderRejected", "d.state = 'failed' AND d.error = 'Unconfirmed' AND d.id % 2 = 1");
    world_wait_drained(w, w->reconciler_group, w->receipts, 60);
    world_wait_count(w, 0, "SELECT count(*) FROM settled_outbox");
    HAND_COUNT(w, ALL, "SELECT count(*) FROM dispatches");
    printf("%d kills, %d late outcomes told\n", POINTS, late);
    compare(s, "killed at every point");
    HAND_COUNT(w, 5, "SELECT count(DISTINCT state) FROM dispatches");
    cr_assert(world_count(w, "SELECT count(*) FROM published WHERE value ->> 'version' = '1'") >
              world_count(w, "SELECT count(*) FROM dispatches WHERE error = 'Unconfirmed'"));
    child_stop(stays);
    child_stop(dispatcher);
    close_settled(s);
}

/* ---- two of them, one frozen with a page in flight
 * ----------------------------------------------------------- */

static bool is_frozen(void *context)
{
    return chaos_is_frozen(context);
}

Test(settled, frozen, .timeout = 150)
{
    enum { ALL = 300 };
    struct settled *s = open_settled("settled_frozen", true);
    struct world *w = &s->c.w;
    hand_batch(w, 1, ALL, LONG_AGO);
    struct child *frozen = world_reconciler_crash(w, s->ini, "publish_sent:1:stop");
    tell(w, "Unconfirmed", "true");
    world_wait("the publisher stands still", 30, is_frozen, frozen);
    struct child *other = world_reconciler(w, s->ini);
    world_wait_count(w, 0, "SELECT count(*) FROM settled_outbox");
    int64_t first = world_topic_records(w, s->topic);
    tell(w, "ProviderRejected", "true");
    world_wait_count(w, ALL, "SELECT count(*) FROM dispatches WHERE error = 'ProviderRejected'");
    world_wait_count(w, 0, "SELECT count(*) FROM settled_outbox");
    child_signal(frozen, SIGCONT); /* its first versions are acknowledged now, if they were not before */
    child_wait_log(frozen, "PUBLISH-PAGE", 30);
    world_wait_count(w, 0, "SELECT count(*) FROM settled_outbox");
    printf("%lld records once the other had taken over from the frozen one\n", (long long)first);
    compare(s, "frozen with first versions in hand");
    child_stop(other);
    child_stop(frozen);
    close_settled(s);
}

/* ---- the topic is missing
 * -------------------------------------------------------------------------------------- */

static int lines_with(const struct child *child, const char *text)
{
    char line[8192];
    int count = 0;
    FILE *stream = fopen(child->log, "r");
    cr_assert_not_null(stream);
    while (fgets(line, sizeof line, stream) != NULL)
        count += strstr(line, text) != NULL;
    fclose(stream);
    return count;
}

static void check_page(const struct child *child, const char *path, long status, const char *text)
{
    char url[128];
    struct world_reply reply = {0};
    snprintf(url, sizeof url, "http://%s/%s", child->admin, path);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, status, "%s", reply.body);
    cr_assert_not_null(strstr(reply.body, text), "no %s in %s", text, reply.body);
    world_reply_done(&reply);
}

/* What the alert SettledWaits reads, while nothing can be published. */
static bool waits_long(void *context)
{
    double oldest_s = child_metric(context, "belfry_settled_oldest_seconds");
    if (oldest_s > 3)
        printf("nothing can be published: the oldest has waited %.1f s by the metric\n", oldest_s);
    return oldest_s > 3;
}

/* As an operator makes it: twice, and compacted. */
static void create_by_command(struct settled *s)
{
    struct world *w = &s->c.w;
    char path[WORLD_PATH_MAX], ini[256], output[2048];
    snprintf(ini, sizeof ini, "[topics]\nsettled_topic = %s\n", s->topic);
    world_write_dispatcher_ini(w, ini, path);
    const char *argv[] = {"-F", path, "--create-topics", "--partitions", "4", NULL};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(world_run(w, "src/bin/belfry-dispatcher", argv, output, sizeof output), 0);
        cr_assert_not_null(strstr(output, i == 0 ? "settled: created with 4" : "settled: there already"),
                           "%s", output);
    }
    struct fault fault;
    struct kafka_admin *admin = NULL;
    struct config_pair pair = {.key = "bootstrap.servers", .value = w->brokers};
    struct config_pairs pairs = {.pairs = &pair, .count = 1};
    struct kafka_client_options options = {.properties = &pairs, .client_name = "settled-test"};
    struct kafka_config_value policy = {.name = "cleanup.policy"};
    cr_assert_eq(kafka_admin_open(&options, &admin, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(kafka_admin_topic_config(admin, s->topic, &policy, 1, &fault), ST_OK, "%s", fault.text);
    kafka_admin_close(admin);
    cr_assert_str_eq(policy.value, "compact");
}

Test(settled, topic_missing)
{
    enum { ALL = 500 };
    char reason[256];
    struct settled *s = open_settled("settled_missing", false);
    struct world *w = &s->c.w;
    put_sent(w, 1, ALL);
    hand_batch(w, 2, ALL, LONG_AGO);
    struct child *child = world_reconciler_crash(w, s->ini, "no_such_point:1");
    tell(w, "MessageTooBig", "d.state = 'queued'");
    world_wait_count(w, 2 * ALL, "SELECT count(*) FROM settled_outbox");
    world_wait_drained(w, w->reconciler_group, w->receipts, 60);
    snprintf(reason, sizeof reason, "{\"part\":\"publish\",\"reason\":\"topic %s is missing", s->topic);
    check_page(child, "readyz", 503, reason);
    world_sleep_ms(6000); /* asked for again meanwhile */
    world_wait("the metric tells that rows wait", 30, waits_long, child);
    int said = lines_with(child, "\"loop\":\"publish\"");
    printf("topic missing: %d settled all the same, not ready, said %d time(s)\n", 2 * ALL, said);
    cr_assert_eq(said, 1);
    create_by_command(s);
    child_wait_ready(child, 30);
    world_wait_count(w, 0, "SELECT count(*) FROM settled_outbox");
    compare(s, "topic made later");
    check_page(child, "metrics", 200, "\nbelfry_settled_published_total 1000\n");
    child_stop(child);
    close_settled(s);
}

/* ---- the broker is away
 * ------------------------------------------------------------------------------------------ */

struct said {
    const struct child *child;
    const char *text;
    int times;
};

static bool is_said(void *context)
{
    struct said *said = context;
    return lines_with(said->child, said->text) >= said->times;
}

/* Rows stay in the table, memory does not grow, the other loops go on; who is erased meanwhile stays away
 * from the topic, though their record was in the client's hands. */
Test(settled, broker_away, .timeout = 200)
{
    enum { BATCHES = 6, EACH = 1000, ALL = BATCHES * EACH, GROWTH_KIB = 48 * 1024 };
    char bound[64];
    long long erased = 1LL << 20; /* the first dispatch of the first batch */
    struct settled *s = calloc(1, sizeof *s);
    chaos_open(&s->c, "settled_away", 4, CHAOS_OWN_KAFKA);
    struct world *w = &s->c.w;
    child_stop(s->c.reconciler);
    make_topic(s, true);
    struct child *child = s->c.reconciler = world_reconciler(w, s->ini);
    int64_t rss_kib = child_rss_kib(child);
    chaos_kafka(&s->c, "stop", "kill");
    put_sent(w, BATCHES, EACH);
    world_wait_count(w, ALL, "SELECT count(*) FROM dispatches WHERE state = 'expired'");
    world_wait_count(w, ALL, "SELECT count(*) FROM settled_outbox");
    world_wait("a page is late", 60, is_said, &(struct said){child, "PUBLISH-LATE", 1});
    world_text(w, bound, sizeof bound, "SELECT bound FROM settled");
    world_exec(w, "SELECT belfry_erase_user('u%lld')", erased);
    world_wait("the next page is late", 60, is_said, &(struct said){child, "PUBLISH-LATE", 3});
    HAND_COUNT(w, ALL - 1, "SELECT count(*) FROM settled_outbox");
    world_wait_count(w, 1, "SELECT count(*) FROM settled WHERE bound > '%s'", bound);
    world_wait("it says so", 60, is_said, &(struct said){child, "records wait for", 1});
    check_page(child, "readyz", 503, "\"part\":\"publish\"");
    world_wait("the metric tells that rows wait", 30, waits_long, child);
    int64_t grown_kib = child_rss_kib(child) - rss_kib;
    printf("broker away: %d settled, %d pages late, RSS %+lld KiB\n", ALL, lines_with(child, "PUBLISH-LATE"),
           (long long)grown_kib);
    cr_assert(grown_kib < GROWTH_KIB);
    chaos_kafka(&s->c, "start", NULL);
    world_wait_count(w, 0, "SELECT count(*) FROM settled_outbox");
    compare(s, "broker back");
    HAND_COUNT(w, 0, "SELECT count(*) FROM published WHERE key = '%lld'", erased);
    chaos_close(&s->c);
    free(s);
}
