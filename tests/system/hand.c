/* Rows as ingest leaves them, outcomes as fan-out tells them. */
#include "hand.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { JSON_MAX = 1024 };

void hand_batch(struct world *w, int batch, int count, const char *queued_at)
{
    long long first = (long long)batch << 20, last = first + count - 1;
    world_exec(w,
               "INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT d, 'ExponentPushToken[' || d || ']', 'u' || d, 'ios', x, x, x FROM"
               " generate_series(%lld, %lld) d, (SELECT now() - interval '30 d') t (x)",
               first, last);
    world_exec(
        w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
        " batch_id) SELECT lpad(to_hex(d), 32, '0')::uuid, 'w', 'u' || d, 't', 'title',"
        " clock_timestamp(), %d FROM generate_series(%lld, %lld) d",
        batch, first, last);
    world_exec(w,
               "INSERT INTO dispatches (id, notification_id, device_id, queued_at, updated_at) SELECT d,"
               " lpad(to_hex(d), 32, '0')::uuid, d, %s, %s FROM generate_series(%lld, %lld) d",
               queued_at, queued_at, first, last);
    world_exec(w,
               "INSERT INTO partition_offsets AS o (group_id, topic, partition, records, events, recipients,"
               " notifications, dispatches) VALUES ('hand', 'hand', %d, %d, %d, %d, %d, %d)",
               batch, count, count, count, count, count);
}

long long hand_id(int batch, int ordinal)
{
    return ((long long)batch << 20) + ordinal;
}

void hand_tell_at(struct world *w, long long id, const char *outcome, const char *text, int from_now_s)
{
    char json[JSON_MAX], key[32], member[256] = "", at[48];
    time_t when = time(NULL) + from_now_s;
    struct tm utc;
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&when, &utc));
    bool sent = strcmp(outcome, "sent") == 0;
    if (text[0] != '\0')
        snprintf(member, sizeof member, ",\"%s\":\"%s\"", sent ? "ticket" : "error", text);
    snprintf(
        json, sizeof json,
        "{\"v\":1,\"dispatch_id\":\"%lld\",\"notification_id\":\"00000000-0000-0000-%04llx-%012llx\","
        "\"workspace_id\":\"w\",\"recipient_user_id\":\"u%lld\",\"device_id\":\"%lld\",\"outcome\":\"%s\"%s,"
        "\"attempt\":1,\"at\":\"%s\"}",
        id, (unsigned long long)id >> 48, (unsigned long long)id & 0xffffffffffffULL, id, id, outcome, member,
        at);
    snprintf(key, sizeof key, "%lld", id >> 20);
    world_produce_fast(w, w->receipts, -1, key, json);
}

void hand_tell(struct world *w, long long id, const char *outcome, const char *text)
{
    hand_tell_at(w, id, outcome, text, -60);
}

void hand_put_sent(struct world *w, const struct hand_sent *sent)
{
    world_exec(w,
               "CREATE TEMP TABLE made ON COMMIT PRESERVE ROWS AS SELECT ((%d + b)::bigint << 20) + i AS d,"
               " '%08x-0000-7000-8000-' || lpad(to_hex(%lld + b * %d + i), 12, '0') AS ticket, %s AS at"
               " FROM generate_series(0, %d) b, generate_series(0, %d) i",
               sent->batch, sent->run, sent->first_ticket, sent->each, sent->queued_at, sent->batches - 1,
               sent->each - 1);
    world_exec(w,
               "INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT d, 'ExponentPushToken[' || d || ']', 'u' || d, 'ios', x, x, x FROM made,"
               " (SELECT now() - interval '30 d') t (x)");
    world_exec(
        w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
           " batch_id) SELECT lpad(to_hex(d), 32, '0')::uuid, 'w', 'u' || d, 't', 'title',"
           " clock_timestamp(), d >> 20 FROM made");
    world_exec(w,
               "INSERT INTO dispatches (id, notification_id, device_id, state, ticket, queued_at, updated_at)"
               " SELECT d, lpad(to_hex(d), 32, '0')::uuid, d, 'sent', ticket, at, at FROM made");
    world_exec(w,
               "INSERT INTO partition_offsets AS o (group_id, topic, partition, records, events, recipients,"
               " notifications, dispatches) SELECT 'hand', 'hand', min(d >> 20), n, n, n, n, n FROM made,"
               " (SELECT count(*) AS n FROM made) c GROUP BY n");
    world_exec(w, "INSERT INTO receipt_batches (batch_id, due_at) SELECT DISTINCT d >> 20, now() FROM made;"
                  " DROP TABLE made");
}

void hand_open(struct world *w, const char *name, int partitions)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, partitions);
    world_simulator(w, NULL);
}

void hand_drained(struct world *w)
{
    world_flush(w);
    world_wait_drained(w, w->reconciler_group, w->receipts, 60);
}

void hand_send(struct world *w, int batch, int count)
{
    char url[256], body[16384] = "[";
    for (int i = 0; i < count; i++) {
        size_t at = strlen(body);
        snprintf(body + at, sizeof body - at, "%s{\"to\":\"ExponentPushToken[%lld]\",\"title\":\"t\"}",
                 i > 0 ? "," : "", hand_id(batch, i));
    }
    snprintf(body + strlen(body), sizeof body - strlen(body), "]");
    snprintf(url, sizeof url, "%s/--/api/v2/push/send", w->provider_url);
    const char *headers[] = {"Content-Type: application/json", NULL};
    struct world_reply reply;
    world_http("POST", url, headers, body, &reply);
    cr_assert_eq(reply.status, 200, "%s", reply.body);
    const char *at = reply.body;
    for (int i = 0; i < count; i++) {
        char ticket[80];
        at = strstr(at, "\"id\":");
        cr_assert_not_null(at, "ticket %d in %s", i, reply.body);
        at = strchr(at + 5, '"') + 1;
        snprintf(ticket, sizeof ticket, "%.*s", (int)strcspn(at, "\""), at);
        hand_tell(w, hand_id(batch, i), "sent", ticket);
    }
    world_reply_done(&reply);
}

void hand_record_transitions(struct world *w)
{
    world_exec(w, "CREATE TABLE transitions (id bigint, from_state text, to_state text)");
    world_exec(
        w, "CREATE FUNCTION note() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS 'BEGIN INSERT INTO"
           " transitions VALUES (OLD.id, OLD.state, NEW.state); RETURN NULL; END'");
    world_exec(w, "CREATE TRIGGER note AFTER UPDATE ON dispatches FOR EACH ROW EXECUTE FUNCTION note()");
}

void hand_wait_calls(struct world *w, int64_t calls)
{
    int64_t deadline = world_now_ms() + 30000;
    while (simulator_stat(w, "receipts", "calls") < calls) {
        cr_assert(world_now_ms() < deadline, "%lld requests for receipts never came", (long long)calls);
        world_sleep_ms(5);
    }
}
