/* The world of the fault tests. What the provider took is read from the simulator's record, which stands
 * before the reply leaves: it is the truth even when the answer is lost. */
#include "system/chaos.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USERS = 1000, LINE_MAX_BYTES = 4096 };

/* -- what the provider took: (notification, token) pairs by their hash ------------------------------------
 */

struct chaos_seen {
    uint64_t *table;
    size_t capacity;
    int64_t count, doubled;
    long offset; /* of the record file */
};

static uint64_t hash_part(const char *line, const char *name, uint64_t hash)
{
    const char *at = strstr(line, name);
    cr_assert(at != NULL, "odd line in the simulator's record: %s", line);
    at += strlen(name);
    at += strspn(at, ": \"");
    for (; *at != '"' && *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    return hash;
}

static bool seen_put(struct chaos_seen *seen, uint64_t hash)
{
    size_t at = hash & (seen->capacity - 1);
    while (seen->table[at] != 0 && seen->table[at] != hash)
        at = (at + 1) & (seen->capacity - 1);
    bool known = seen->table[at] == hash;
    seen->table[at] = hash;
    return known;
}

static void seen_grow(struct chaos_seen *seen)
{
    struct chaos_seen old = *seen;
    if ((size_t)seen->count * 2 < seen->capacity)
        return;
    seen->capacity = old.capacity == 0 ? 65536 : old.capacity * 2;
    seen->table = calloc(seen->capacity, sizeof seen->table[0]);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.table[i] != 0)
            (void)seen_put(seen, old.table[i]);
    }
    free(old.table);
}

/* Reads on where it stopped last time; the simulator writes whole lines. */
static void seen_read(struct chaos_seen *seen, const char *path)
{
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return;
    cr_assert(fseek(stream, seen->offset, SEEK_SET) == 0);
    char line[LINE_MAX_BYTES];
    while (fgets(line, sizeof line, stream) != NULL && strchr(line, '\n') != NULL) {
        uint64_t hash = hash_part(line, "\"notification_id\"", 14695981039346656037U);
        seen_grow(seen);
        seen->count++;
        seen->doubled += seen_put(seen, hash_part(line, "\"token\"", hash * 31) | 1);
        seen->offset += (long)strlen(line);
    }
    fclose(stream);
}

/* -- servers of our own -----------------------------------------------------------------------------------
 */

void chaos_postgres(struct chaos *c, const char *verb, const char *mode)
{
    world_own_server(&c->w, "postgres", verb, mode);
}

void chaos_kafka(struct chaos *c, const char *verb, const char *mode)
{
    world_own_server(&c->w, "kafka", verb, mode);
}

static void own_servers(struct chaos *c, enum chaos_own own)
{
    c->own = own;
    if (own & CHAOS_OWN_POSTGRES)
        chaos_postgres(c, "start", NULL);
    if (own & CHAOS_OWN_KAFKA)
        chaos_kafka(c, "start", NULL);
}

/* -- the world ---------------------------------------------------------------------------------------------
 */

static void register_devices(struct chaos *c)
{
    struct child *ingest = world_dispatcher(&c->w, CHAOS_INI "[run]\nroles = ingest\n");
    int64_t devices = ledger_register(&c->w, &c->ledger);
    world_wait_count(&c->w, devices, "SELECT count(*) FROM device_tokens WHERE enabled");
    world_wait_drained(&c->w, c->w.group, c->w.devices, WORLD_WAIT_S);
    child_stop(ingest);
}

void chaos_open(struct chaos *c, const char *name, int partitions, enum chaos_own own)
{
    memset(c, 0, sizeof *c);
    world_open(&c->w, name);
    own_servers(c, own);
    c->seen = calloc(1, sizeof *c->seen);
    /* No tombstones: after a kill between the two commits a replay counts them again, on both sides. */
    c->ledger =
        (struct ledger){.users = USERS, .partitions = partitions, .tag = c->w.name, .with_sqlstate = true};
    world_database(&c->w);
    world_topics(&c->w, partitions);
    c->simulator = world_simulator(&c->w, NULL);
    ledger_add_check(&c->w);
    c->reconciler = world_reconciler(&c->w, "[reconciler]\nreceipt_delay = 1h\n");
    register_devices(c);
}

void chaos_close(struct chaos *c)
{
    child_stop(c->reconciler);
    world_close(&c->w);
    if (c->own & CHAOS_OWN_POSTGRES)
        chaos_postgres(c, "stop", "immediate");
    if (c->own & CHAOS_OWN_KAFKA)
        chaos_kafka(c, "stop", "kill");
    free(c->seen->table);
    free(c->seen);
}

void chaos_produce(struct chaos *c, int count)
{
    ledger_produce(&c->w, &c->ledger, c->made, c->made + count);
    c->made += count;
}

/* -- settling ----------------------------------------------------------------------------------------------
 */

static bool is_drained(struct world *w, const char *group, const char *topic)
{
    int64_t next = world_count(w,
                               "SELECT coalesce(sum(next_offset), 0) FROM partition_offsets WHERE group_id = "
                               "'%s' AND topic = '%s'",
                               group, topic);
    return next == world_topic_records(w, topic);
}

static bool is_settled(struct chaos *c)
{
    struct world *w = &c->w;
    return is_drained(w, w->group, w->events) && world_count(w, "SELECT count(*) FROM batches") == 0 &&
           is_drained(w, w->reconciler_group, w->receipts) &&
           world_count(w, "SELECT count(*) FROM dispatches WHERE state = 'queued'") == 0;
}

bool chaos_settled(struct chaos *c, int seconds)
{
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    while (!is_settled(c)) {
        if (world_now_ms() > deadline)
            return false;
        world_sleep_ms(100);
    }
    return true;
}

void chaos_settle(struct chaos *c, int seconds)
{
    char open[256];
    if (chaos_settled(c, seconds))
        return;
    world_text(&c->w, open, sizeof open,
               "SELECT format('%%s batches (%%s unsent), %%s queued, ', (SELECT count(*) FROM batches),"
               " (SELECT count(*) FROM batches WHERE unsent <> '{}'),"
               " (SELECT count(*) FROM dispatches WHERE state = 'queued'))"
               " || (SELECT string_agg(format('%%s[%%s] at %%s', topic, partition, next_offset), ', ')"
               " FROM partition_offsets WHERE topic LIKE '%%events')");
    cr_assert_fail("not settled after %d s: %s of %lld records: see %s", seconds, open,
                   (long long)world_topic_records(&c->w, c->w.events), c->w.folder);
}

/* -- counting ----------------------------------------------------------------------------------------------
 */

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : 0;
}

void chaos_count(struct chaos *c, struct chaos_figures *figures)
{
    struct world *w = &c->w;
    char text[256];
    long long dispatches = 0, queued = 0, sent = 0, unconfirmed = 0, failed = 0, expired = 0;
    seen_read(c->seen, w->record);
    int64_t rows = world_count(w, "SELECT count(*) FROM notifications");
    world_text(w, text, sizeof text,
               "SELECT concat_ws(' ', count(*), count(*) FILTER (WHERE state = 'queued'),"
               " count(*) FILTER (WHERE state IN ('sent', 'delivered')),"
               " count(*) FILTER (WHERE state = 'failed' AND error = 'Unconfirmed'),"
               " count(*) FILTER (WHERE state = 'failed' AND error <> 'Unconfirmed'),"
               " count(*) FILTER (WHERE state = 'suppressed' AND error = 'Expired')) FROM dispatches");
    cr_assert(sscanf(text, "%lld %lld %lld %lld %lld %lld", &dispatches, &queued, &sent, &unconfirmed,
                     &failed, &expired) == 6);
    int64_t accepted = c->seen->count - c->seen->doubled;
    *figures = (struct chaos_figures){
        .lost = distance(c->ledger.notifications, rows) + distance(c->ledger.dispatches, dispatches) +
                queued + distance(sent, accepted) +
                distance(dispatches, accepted + unconfirmed + failed + expired),
        .doubled = c->seen->doubled + distance(rows, c->ledger.notifications) +
                   distance(dispatches, c->ledger.dispatches),
        .unconfirmed = unconfirmed,
        .failed = failed,
        .expired = expired,
        .accepted = accepted,
        .unbalanced = world_count(w, "SELECT count(*) FROM belfry_books WHERE NOT ok"),
    };
}

int64_t chaos_stored(struct chaos *c)
{
    return world_count(
        &c->w, "SELECT coalesce(sum(next_offset), 0) FROM partition_offsets WHERE topic = '%s'", c->w.events);
}

void chaos_check(struct chaos *c, const char *what, int64_t unconfirmed_max, struct chaos_figures *figures)
{
    chaos_count(c, figures);
    printf("%s: %d events, %lld dispatches: lost %lld, doubled %lld, Unconfirmed %lld (at most %lld), failed "
           "otherwise %lld, Expired %lld, accepted %lld\n",
           what, c->made, (long long)c->ledger.dispatches, (long long)figures->lost,
           (long long)figures->doubled, (long long)figures->unconfirmed, (long long)unconfirmed_max,
           (long long)figures->failed, (long long)figures->expired, (long long)figures->accepted);
    ledger_check(&c->w, &c->ledger);
    fflush(stdout);
    cr_expect(figures->lost == 0, "lost: see %s", c->w.folder);
    cr_expect(figures->doubled == 0, "doubled: see %s", c->w.folder);
    cr_expect(figures->unconfirmed <= unconfirmed_max, "too many Unconfirmed: see %s", c->w.folder);
}

/* -- processes ---------------------------------------------------------------------------------------------
 */

bool chaos_is_frozen(const struct child *child)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child->pid);
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return false;
    if (fgets(text, sizeof text, stream) == NULL)
        text[0] = '\0';
    fclose(stream);
    const char *state = strrchr(text, ')'); /* the name before it may hold anything */
    return state != NULL && state[1] == ' ' && state[2] == 'T';
}
