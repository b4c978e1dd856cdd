/* belfry-dispatcher --replay-dlq: what is put back, what is left, and that nothing is put back twice. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

#define INGEST_ONLY "[run]\nroles = ingest\n"

static char output[8192];

/* Runs it with these flags beside --replay-dlq; prints what it said; its exit code. */
static int replay(struct world *w, const char *a, const char *b, const char *c)
{
    char path[WORLD_PATH_MAX];
    world_write_dispatcher_ini(w, NULL, path);
    const char *argv[] = {"-F", path, "--replay-dlq", a, b, c, NULL};
    int code = world_run(w, "src/bin/belfry-dispatcher", argv, output, sizeof output);
    printf("--replay-dlq %s %s %s: exit %d\n%s", a == NULL ? "" : a, b == NULL ? "" : b, c == NULL ? "" : c,
           code, output);
    return code;
}

static void must_say(const char *text)
{
    cr_assert(strstr(output, text) != NULL, "it does not say: %s", text);
}

/* What stands on the events topic from an offset on. */
struct looked {
    int64_t from;
    int count, replays_1, strange; /* strange: our error or origin headers are still there */
    char key[32], value[256], custom[64];
    int partition;
};

static void look(void *context, const struct world_record *record)
{
    struct looked *looked = context;
    if (record->offset < looked->from || record->value == NULL)
        return;
    looked->count++;
    looked->partition = record->partition;
    snprintf(looked->key, sizeof looked->key, "%s", record->key == NULL ? "" : record->key);
    snprintf(looked->value, sizeof looked->value, "%s", record->value);
    for (int i = 0; i < record->header_count; i++) {
        const struct world_header *header = &record->headers[i];
        looked->strange +=
            strncmp(header->name, "belfry.error", 12) == 0 || strncmp(header->name, "belfry.origin", 13) == 0;
        looked->replays_1 += strcmp(header->name, "belfry.replays") == 0 && strcmp(header->value, "1") == 0;
        if (strcmp(header->name, "custom") == 0)
            snprintf(looked->custom, sizeof looked->custom, "%s", header->value);
    }
}

static void produce_titled(struct world *w, int partition, const char *run, const char *title)
{
    char value[400];
    const struct world_header header = {"custom", "kept"};
    snprintf(value, sizeof value,
             "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"%s\","
             "\"title\":%s}",
             run, run, title);
    world_produce_bytes(w, w->events, partition, "the-key", value, strlen(value), &header, 1, -1);
}

/* The whole story: shown, by code, all, again; what fails again comes back at most three times. */
Test(dispatcher, replay_dlq, .timeout = 280)
{
    struct world w;
    world_open(&w, "replay");
    world_database(&w);
    world_topics(&w, 2);
    world_exec(&w, "ALTER TABLE notifications ADD CONSTRAINT no_bad CHECK (title <> 'refused')");
    struct child *dispatcher = world_dispatcher(&w, INGEST_ONLY);
    for (int i = 0; i < 5; i++) {
        char run[16];
        snprintf(run, sizeof run, "s%d", i);
        produce_titled(&w, 1, run, "\"refused\""); /* sqlstate: right once the constraint is gone */
    }
    produce_titled(&w, 0, "f0", "7"); /* field: never right */
    produce_titled(&w, 0, "f1", "7");
    world_produce(&w, w.events, 0, "j", "secret-not-json"); /* json */
    produce_titled(&w, 0, "good", "\"fine\"");
    world_wait_count(&w, 8, "SELECT sum(dead_letters) FROM partition_offsets");
    world_produce(&w, w.dlq, 0, "x", "no origin"); /* someone else's */
    cr_assert_eq(world_topic_records(&w, w.events), 9);

    cr_assert_eq(replay(&w, "--dry-run", NULL, NULL), 0);
    must_say("would put back 8: ");
    must_say("sqlstate 5");
    must_say("left 1: 1 not of this dispatcher's topics");
    cr_assert(strstr(output, "secret-not-json") == NULL, "no content is shown");
    cr_assert_eq(world_topic_records(&w, w.events), 9, "a dry run puts nothing back");
    cr_assert_eq(replay(&w, "--since", "9999-01-01T00:00:00Z", NULL), 0);
    must_say("put back 0\n");
    must_say("8 older");
    cr_assert_eq(replay(&w, "--since", "yesterday", NULL), 2);

    child_stop(dispatcher);
    world_exec(&w, "ALTER TABLE notifications DROP CONSTRAINT no_bad");
    cr_assert_eq(replay(&w, "--code", "sqlstate", NULL), 0);
    must_say("put back 5: sqlstate 5\n");
    must_say("3 of another code");
    struct looked looked = {.from = 5};
    world_read_topic(&w, w.events, look, &looked);
    cr_assert_eq(looked.strange, 0);
    cr_assert_eq(looked.replays_1, 5);
    cr_assert_eq(looked.partition, 1, "on its partition");
    cr_assert_str_eq(looked.key, "the-key");
    cr_assert_str_eq(looked.custom, "kept");
    cr_assert(strstr(looked.value, "\"refused\"") != NULL);
    dispatcher = world_dispatcher(&w, INGEST_ONLY);
    world_wait_count(&w, 6, "SELECT count(*) FROM notifications");

    cr_assert_eq(replay(&w, "--code", "sqlstate", NULL), 0);
    must_say("put back 0\n");
    must_say("5 put back before");
    for (int times = 1; times <= 4; times++) {
        world_wait_drained(&w, w.group, w.events, 30);
        cr_assert_eq(replay(&w, NULL, NULL, NULL), 0);
        must_say(times <= 3 ? "put back 3: " : "put back 0\n");
    }
    must_say("3 put back 3 times already");
    world_wait_drained(&w, w.group, w.events, 30);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM notifications"), 6);
    cr_assert_eq(world_topic_records(&w, w.events), 9 + 5 + 9);
    world_check_books(&w);
    child_stop(dispatcher);
    world_close(&w);
}

/* Killed between the acknowledgement and the row that remembers it: put back once more, stored once. */
Test(dispatcher, replay_dlq_killed, .timeout = 200)
{
    struct world w;
    char path[WORLD_PATH_MAX];
    world_open(&w, "replay_killed");
    world_database(&w);
    world_topics(&w, 1);
    world_exec(&w, "ALTER TABLE notifications ADD CONSTRAINT no_bad CHECK (title <> 'refused')");
    struct child *dispatcher = world_dispatcher(&w, INGEST_ONLY);
    for (int i = 0; i < 20; i++) {
        char run[16];
        snprintf(run, sizeof run, "s%d", i);
        produce_titled(&w, 0, run, "\"refused\"");
    }
    world_wait_count(&w, 20, "SELECT sum(dead_letters) FROM partition_offsets");
    world_exec(&w, "ALTER TABLE notifications DROP CONSTRAINT no_bad");
    world_write_dispatcher_ini(&w, NULL, path);
    const char *argv[] = {"-F", path, "--replay-dlq", NULL};
    const char *environment[] = {"BELFRY_CRASH=replay", NULL};
    struct child *doomed = child_start(&w, "src/bin/belfry-dispatcher-crash", argv, environment);
    cr_assert_eq(child_wait(doomed, 60), 128 + SIGKILL);
    world_wait_count(&w, 20, "SELECT count(*) FROM notifications");
    cr_assert_eq(replay(&w, NULL, NULL, NULL), 0);
    must_say("put back 20: sqlstate 20\n");
    cr_assert_eq(replay(&w, NULL, NULL, NULL), 0);
    must_say("put back 0\n");
    world_wait_drained(&w, w.group, w.events, 30);
    printf("%lld notifications, %lld duplicates\n",
           (long long)world_count(&w, "SELECT count(*) FROM notifications"),
           (long long)world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"));
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM notifications"), 20);
    cr_assert_eq(world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"), 20);
    world_check_books(&w);
    child_stop(dispatcher);
    world_close(&w);
}
