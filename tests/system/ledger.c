/* Everything follows from a record's number, so that the plan needs no memory and any part can be made again.
 */
#include "system/ledger.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_TEXT_MAX = 40000, RECIPIENTS_OF_MANY = 3, LATER = 4000 };

const char *const ledger_code_names[6] = {"json", "not_object", "field", "nul", "too_big", "sqlstate"};

/* What stands at place n. Places are looked at in rows of 100: 9 x duplicate of three kinds beside their
 * original, one later duplicate, one poison, tombstones spread over the first rows. */
enum kind { ORIGINAL, BEHIND, LATER_BATCH, OTHER_RUN, OTHER_PARTITION, POISON, TOMBSTONE };

static enum kind kind_of(const struct ledger *ledger, int n)
{
    int at = n % 100, row = n / 100;
    if (at == 50)
        return POISON;
    if (at == 75 && row < ledger->tombstones)
        return TOMBSTONE;
    if (at % 33 == 1)
        return BEHIND; /* 1, 34, 67 */
    if (at % 33 == 3)
        return OTHER_RUN; /* 3, 36, 69 */
    if (at % 33 == 5)
        return OTHER_PARTITION; /* 5, 38, 71 */
    if (at == 90)
        return LATER_BATCH;
    return ORIGINAL;
}

static bool is_duplicate(enum kind kind)
{
    return kind == BEHIND || kind == OTHER_RUN || kind == OTHER_PARTITION || kind == LATER_BATCH;
}

/* The original a duplicate repeats: the place before it, or the same place `LATER` records back. */
static int original_of(int n, enum kind kind)
{
    if (kind == LATER_BATCH)
        return n >= LATER ? n - LATER - 2 : n - 2; /* places 88 are originals */
    return n - 1;
}

int ledger_devices_of(int user)
{
    return user % 4 == 0 ? 2 : user % 4 == 1 ? 0 : 1;
}

void ledger_token(const struct ledger *ledger, int user, int device, char *token)
{
    snprintf(token, 96, "ExponentPushToken[%s-%05d-%d]", ledger->tag, user, device);
}

static bool has_many(int original)
{
    return original % 50 == 7;
}

static int recipient_of(const struct ledger *ledger, int original, int place)
{
    return (int)(((int64_t)original * 7919 + place * 101) % ledger->users);
}

static int partition_of(const struct ledger *ledger, int original)
{
    return original / 3 % ledger->partitions;
}

static void write_recipients(const struct ledger *ledger, int original, char *text, size_t size)
{
    if (!has_many(original)) {
        snprintf(text, size, "\"recipient_user_id\":\"u%05d\"", recipient_of(ledger, original, 0));
        return;
    }
    /* The first is named twice: a repeated recipient counts once. */
    snprintf(text, size, "\"recipients\":[\"u%05d\",\"u%05d\",\"u%05d\",\"u%05d\"]",
             recipient_of(ledger, original, 0), recipient_of(ledger, original, 1),
             recipient_of(ledger, original, 2), recipient_of(ledger, original, 0));
}

static void write_event(const struct ledger *ledger, int original, bool other_run, char *text)
{
    char recipients[256], key[128] = "";
    write_recipients(ledger, original, recipients, sizeof recipients);
    /* What another run repeats must carry the producer's own key. */
    if (original % 2 == 0)
        snprintf(key, sizeof key, "\"idempotency_key\":\"%s/order/%d\",", ledger->tag, original);
    snprintf(
        text, EVENT_TEXT_MAX,
        "{\"v\":1,\"run_id\":\"%s-%s%d\",%s\"event_type\":\"meeting.assigned\",\"workspace_id\":\"w%d\",%s,"
        "\"category\":\"meetings\",\"title\":\"You lead “Weekly %d”\",\"body\":\"Tomorrow at 9:00, room "
        "%d. Bring the figures of the %s run.\",\"data\":{\"meeting\":%d,\"ratio\":0.1}%s}",
        ledger->tag, other_run ? "again-" : "", original, key, original % 3, recipients, original,
        original % 40, ledger->tag, original, original % 97 == 0 ? ",\"push\":{\"priority\":\"high\"}" : "");
}

static const char *const poison_texts[] = {
    "json|this-is-not-json {{{",
    "json|{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
    "\"title\":\"x\","
    "\"recipient_user_id\":\"v\"}",
    "not_object|[1,2,3]",
    "not_object|\"a string\"",
    "field|{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\"}",
    "field|{\"run_id\":17,\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
    "\"x\"}",
    "field|{\"v\":2,\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
    "\"title\":\"x\"}",
    "field|{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
    "\"title\":\"x\","
    "\"occurred_at\":\"now\"}",
    "nul|{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
    "\"a"
    "\\u0000b\"}",
    "nul|{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
    "\"x\","
    "\"data\":{\"a\":\"\\u0000\"}}",
    "too_big|",
    "sqlstate|",
};
enum { POISON_KINDS = sizeof poison_texts / sizeof poison_texts[0] };

static int code_index(const char *text)
{
    for (int i = 0; i < 6; i++) {
        size_t bytes = strlen(ledger_code_names[i]);
        if (strncmp(text, ledger_code_names[i], bytes) == 0 && text[bytes] == '|')
            return i;
    }
    cr_assert_fail("unknown poison");
    return -1;
}

static int write_poison(const struct ledger *ledger, int n, char *text)
{
    int row = n / 100;
    const char *template = poison_texts[row % (ledger->with_sqlstate ? POISON_KINDS : POISON_KINDS - 1)];
    int code = code_index(template);
    if (code == LEDGER_TOO_BIG) {
        int bytes = snprintf(text, EVENT_TEXT_MAX,
                             "{\"run_id\":\"%s-p%d\",\"event_type\":\"t\",\"workspace_id\":\"w\","
                             "\"recipient_user_id\":\"u\",\"title\":\"x\",\"data\":{\"a\":\"",
                             ledger->tag, n);
        memset(text + bytes, 'x', 17000);
        strcpy(text + bytes + 17000, "\"}}");
    } else if (code == LEDGER_SQLSTATE) {
        snprintf(text, EVENT_TEXT_MAX,
                 "{\"run_id\":\"%s-p%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":"
                 "\"u00000\","
                 "\"title\":\"refused by a check\"}",
                 ledger->tag, n);
    } else {
        strcpy(text, strchr(template, '|') + 1);
    }
    return code;
}

void ledger_add_check(struct world *w)
{
    world_exec(w,
               "ALTER TABLE notifications ADD CONSTRAINT ledger_check CHECK (title <> 'refused by a check')");
}

int64_t ledger_register(struct world *w, const struct ledger *ledger)
{
    int64_t count = 0;
    for (int user = 0; user < ledger->users; user++) {
        char name[16], token[96];
        snprintf(name, sizeof name, "u%05d", user);
        for (int device = 0; device < ledger_devices_of(user); device++) {
            ledger_token(ledger, user, device, token);
            world_register(w, name, token);
            count++;
        }
    }
    world_flush(w);
    return count;
}

static void count_original(struct ledger *ledger, int original)
{
    int places = has_many(original) ? RECIPIENTS_OF_MANY : 1;
    ledger->originals++;
    ledger->notifications += places;
    for (int i = 0; i < places; i++)
        ledger->dispatches += ledger_devices_of(recipient_of(ledger, original, i));
}

void ledger_produce(struct world *w, struct ledger *ledger, int from, int to)
{
    char *text = malloc(EVENT_TEXT_MAX), key[16];
    for (int n = from; n < to; n++) {
        enum kind kind = kind_of(ledger, n);
        int original = is_duplicate(kind) ? original_of(n, kind) : n;
        int partition = partition_of(ledger, original);
        snprintf(key, sizeof key, "k%d", original);
        if (kind == TOMBSTONE) {
            world_produce_fast(w, w->events, partition, key, NULL);
            ledger->tombstones_made++;
            continue;
        }
        if (kind == POISON) {
            ledger->poison_by_code[write_poison(ledger, n, text)]++;
            ledger->poison++;
        } else {
            /* Only an original with a key of its own can be repeated by another run. */
            bool other_run = kind == OTHER_RUN && original % 2 == 0;
            write_event(ledger, original, other_run, text);
            ledger->recipients += has_many(original) ? RECIPIENTS_OF_MANY : 1;
            if (kind == ORIGINAL)
                count_original(ledger, original);
            else
                ledger->duplicates++;
        }
        if (kind == OTHER_PARTITION)
            partition = (partition + 1) % ledger->partitions;
        world_produce_fast(w, w->events, partition, key, text);
    }
    world_flush(w);
    free(text);
}

/* -- checks
 * ---------------------------------------------------------------------------------------------------- */

struct seen {
    char (*origins)[128];
    int count, capacity;
    int64_t by_code[6];
};

static int compare_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static const char *header_of(const struct world_record *record, const char *name)
{
    for (int i = 0; i < record->header_count; i++) {
        if (strcmp(record->headers[i].name, name) == 0)
            return record->headers[i].value;
    }
    return "";
}

static void note_dead_letter(void *context, const struct world_record *record)
{
    struct seen *seen = context;
    if (seen->count == seen->capacity) {
        seen->capacity = seen->capacity == 0 ? 1024 : seen->capacity * 2;
        seen->origins = realloc(seen->origins, (size_t)seen->capacity * sizeof seen->origins[0]);
    }
    /* The code stands behind, so that sorting brings one origin's deliveries together. */
    snprintf(seen->origins[seen->count++], 128, "%.60s/%.8s/%.16s %.16s",
             header_of(record, "belfry.origin.topic"), header_of(record, "belfry.origin.partition"),
             header_of(record, "belfry.origin.offset"), header_of(record, "belfry.error.code"));
}

static int64_t count_dead_letters(struct world *w, struct seen *seen)
{
    memset(seen, 0, sizeof *seen);
    world_read_topic(w, w->dlq, note_dead_letter, seen);
    qsort(seen->origins, (size_t)seen->count, sizeof seen->origins[0], compare_text);
    int64_t distinct = 0;
    for (int i = 0; i < seen->count; i++) {
        if (i > 0 && strcmp(seen->origins[i], seen->origins[i - 1]) == 0)
            continue;
        distinct++;
        for (int code = 0; code < 6; code++)
            seen->by_code[code] += strcmp(strrchr(seen->origins[i], ' ') + 1, ledger_code_names[code]) == 0;
    }
    free(seen->origins);
    return distinct;
}

static void copy_value(const char *line, const char *name, char *text, size_t size)
{
    const char *at = strstr(line, name);
    text[0] = '\0';
    if (at == NULL || (at = strchr(at + strlen(name), ':')) == NULL)
        return;
    at += strspn(at, ": \"");
    snprintf(text, size, "%.*s", (int)strcspn(at, "\""), at);
}

int64_t ledger_accepted_twice(struct world *w)
{
    FILE *stream = fopen(w->record, "r");
    if (stream == NULL)
        return 0;
    char(*pairs)[192] = NULL, *line = NULL;
    size_t size = 0, count = 0, capacity = 0;
    while (getline(&line, &size, stream) >= 0) {
        char id[48], token[128];
        copy_value(line, "\"notification_id\"", id, sizeof id);
        copy_value(line, "\"token\"", token, sizeof token);
        cr_assert(id[0] != '\0' && token[0] != '\0', "odd line in the simulator's record: %s", line);
        if (count == capacity) {
            capacity = capacity == 0 ? 4096 : capacity * 2;
            pairs = realloc(pairs, capacity * sizeof pairs[0]);
        }
        snprintf(pairs[count++], sizeof pairs[0], "%s %s", id, token);
    }
    fclose(stream);
    free(line);
    if (count > 0)
        qsort(pairs, count, sizeof pairs[0], compare_text);
    int64_t twice = 0;
    for (size_t i = 1; i < count; i++)
        twice += strcmp(pairs[i], pairs[i - 1]) == 0;
    free(pairs);
    return twice;
}

static void same(const char *what, int64_t got, int64_t expected)
{
    printf("%-46s %8lld  expected %8lld\n", what, (long long)got, (long long)expected);
    cr_expect(got == expected, "%s: %lld, expected %lld", what, (long long)got, (long long)expected);
}

/* A worker killed before Kafka had its offsets has its last records read again, and counted again on both
 * sides of the books (design.md §1 point 4); without that the count is exact. */
static void check_tombstones(struct world *w, const struct ledger *ledger)
{
    int64_t counted =
        world_count(w, "SELECT sum(tombstones) FROM partition_offsets WHERE topic = '%s'", w->events);
    int64_t again =
        world_count(w, "SELECT sum(records) FROM partition_offsets WHERE topic = '%s'", w->events) -
        world_topic_records(w, w->events);
    if (again == 0) {
        same("tombstones counted", counted, ledger->tombstones_made);
        return;
    }
    printf("tombstones counted %lld of %lld, with %lld records read again\n", (long long)counted,
           (long long)ledger->tombstones_made, (long long)again);
    cr_expect(counted >= ledger->tombstones_made && counted <= ledger->tombstones_made + again);
}

void ledger_check(struct world *w, const struct ledger *ledger)
{
    struct seen seen;
    same("notifications = distinct valid keys", world_count(w, "SELECT count(*) FROM notifications"),
         ledger->notifications);
    same("keys", world_count(w, "SELECT count(*) FROM idempotency_keys"), ledger->notifications);
    same("dispatches = notification x enabled device", world_count(w, "SELECT count(*) FROM dispatches"),
         ledger->dispatches);
    same("dispatches doubled",
         world_count(w, "SELECT count(*) - count(DISTINCT (notification_id, device_id)) FROM dispatches"), 0);
    same("accepted twice by the provider", ledger_accepted_twice(w), 0);
    same("dead letters by distinct origin = poison", count_dead_letters(w, &seen), ledger->poison);
    for (int code = 0; code < 6; code++)
        same(ledger_code_names[code], seen.by_code[code], ledger->poison_by_code[code]);
    check_tombstones(w, ledger);
    same("lag of the group in Kafka", world_lag(w, w->group, w->events), 0);
    same("lag of the reconcilers", world_lag(w, w->reconciler_group, w->receipts), 0);
    world_check_books(w);
}
