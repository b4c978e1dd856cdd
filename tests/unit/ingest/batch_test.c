/* A batch in memory: where it ends, what it hands on, what goes stale, and what a statement of it moves. No
 * Kafka and no database: records are made by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_private.h"

enum { ITEMS_MAX = 64 };

static struct ingest_settings settings;
static struct ingest *ingest;
static struct batch *batch;

static void open_batch(void)
{
    struct fault fault;
    settings = (struct ingest_settings){.batch_max_events = ITEMS_MAX,
                                        .batch_max_recipients = 100,
                                        .batch_max_bytes = 100 * 1024,
                                        .record_max_bytes = 1024 * 1024};
    ingest = calloc(1, sizeof *ingest);
    ingest->setup.settings = &settings;
    ingest->clock = clock_system;
    ingest->picked = calloc(ITEMS_MAX, sizeof *ingest->picked);
    ingest->seats = calloc(4, sizeof *ingest->seats);
    ingest->seat_count = 3;
    ingest->seats[0] = (struct seat){TOPIC_EVENTS, 0, .generation = 7, .epoch = 1};
    ingest->seats[1] = (struct seat){TOPIC_EVENTS, 1, .generation = 8, .epoch = 2};
    ingest->seats[2] = (struct seat){TOPIC_DEVICES, 0, .generation = 9, .epoch = 3};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(batch_init(&ingest->batches[i], ITEMS_MAX, &fault), ST_OK);
    }
    batch = &ingest->batches[0];
}

static void close_batch(void)
{
    batch_done(&ingest->batches[0]);
    batch_done(&ingest->batches[1]);
    free(ingest->picked);
    free(ingest->seats);
    free(ingest);
}

/* As intake would: the partition's place moves, with a hole of `hole` before the record. */
static struct item *add(int topic, int32_t partition, const char *value, int64_t hole)
{
    struct seat *seat = seat_find(ingest, topic, partition);
    struct item *item = &batch->items[batch->count++];
    *item = (struct item){.record = {.topic = topic,
                                     .partition = partition,
                                     .offset = seat->position + hole,
                                     .timestamp_ms = -1,
                                     .value_null = value == NULL,
                                     .value = span_of(value)},
                          .start = seat->position,
                          .epoch = seat->epoch,
                          .generation = seat->generation};
    seat->position = item->record.offset + 1;
    return item;
}

static char *event_of(char *text, size_t size, int number, int recipients)
{
    int bytes = snprintf(text, size,
                         "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\","
                         "\"recipients\":[",
                         number);
    for (int i = 0; i < recipients; i++) {
        bytes += snprintf(text + bytes, size - (size_t)bytes, "%s\"u%d\"", i > 0 ? "," : "", i);
    }
    snprintf(text + bytes, size - (size_t)bytes, "]}");
    return text;
}

TestSuite(batch, .init = open_batch, .fini = close_batch);

Test(batch, recipients_close_it_and_the_rest_is_handed_on)
{
    static char texts[4][4096];
    struct fault fault;
    for (int i = 0; i < 4; i++) {
        add(TOPIC_EVENTS, 0, event_of(texts[i], sizeof texts[i], i, 40), 0);
    }
    cr_assert_eq(ingest_parse(ingest, batch, &fault), ST_OK);
    cr_assert_eq(batch->parsed, 2, "%zu", batch->parsed);
    cr_assert(batch->closed && batch_is_full(ingest, batch));
    struct batch *next = &ingest->batches[1];
    batch_hand_on(batch, next);
    cr_assert_eq(next->count, 2);
    cr_assert_eq(next->items[0].record.offset, 2);
    cr_assert_eq(next->items[0].start, 2);
    cr_assert_eq(batch->count, 2);
    cr_assert_eq(ingest_parse(ingest, next, &fault), ST_OK);
    cr_assert_eq(next->parsed, 2);
    cr_assert_not(next->closed);
}

Test(batch, an_event_larger_than_a_batch_is_a_batch_of_its_own)
{
    static char large[65536], small[4096];
    struct fault fault;
    add(TOPIC_EVENTS, 0, event_of(large, sizeof large, 1, 1000), 0);
    add(TOPIC_EVENTS, 0, event_of(small, sizeof small, 2, 1), 0);
    cr_assert_eq(ingest_parse(ingest, batch, &fault), ST_OK);
    cr_assert_eq(batch->parsed, 1);
    cr_assert_eq(batch->items[0].kind, ITEM_EVENT);
    cr_assert_eq(batch->items[0].event->recipient_count, 1000);
    cr_assert(batch->closed);
}

Test(batch, expanded_rows_close_it_too)
{
    static char texts[8][4096];
    struct fault fault;
    settings.batch_max_bytes = 20 * 300; /* a row counts 200 bytes and its text */
    for (int i = 0; i < 8; i++) {
        add(TOPIC_EVENTS, 0, event_of(texts[i], sizeof texts[i], i, 8), 0);
    }
    cr_assert_eq(ingest_parse(ingest, batch, &fault), ST_OK);
    cr_assert_eq(batch->parsed, 3, "%zu events of 8 rows of 201 bytes below 6,000", batch->parsed);
}

Test(batch, what_went_stale_is_dropped)
{
    static char text[4096];
    add(TOPIC_EVENTS, 0, event_of(text, sizeof text, 1, 1), 0);
    add(TOPIC_EVENTS, 1, NULL, 0);
    add(TOPIC_DEVICES, 0, NULL, 0);
    seat_forget(ingest, TOPIC_EVENTS, 1);
    seat_restart(ingest, seat_find(ingest, TOPIC_DEVICES, 0), 0);
    batch_prune(ingest, batch);
    cr_assert_eq(batch->items[0].kind, ITEM_RAW);
    cr_assert_eq(batch->items[1].kind, ITEM_DROPPED);
    cr_assert_eq(batch->items[2].kind, ITEM_DROPPED);
}

Test(batch, a_statement_moves_runs_of_partitions_over_holes)
{
    static char texts[4][4096];
    struct fault fault;
    seat_find(ingest, TOPIC_EVENTS, 0)->position = 100;
    seat_find(ingest, TOPIC_EVENTS, 1)->position = 500;
    add(TOPIC_EVENTS, 0, event_of(texts[0], sizeof texts[0], 0, 1), 0); /* 100 */
    add(TOPIC_EVENTS, 1, event_of(texts[1], sizeof texts[1], 1, 1), 3); /* 503, a hole before it */
    add(TOPIC_EVENTS, 0, NULL, 0);                                      /* 101, a tombstone */
    add(TOPIC_DEVICES, 0, NULL, 0);
    add(TOPIC_EVENTS, 0, event_of(texts[2], sizeof texts[2], 2, 1), 1); /* 103 */
    add(TOPIC_EVENTS, 1, event_of(texts[3], sizeof texts[3], 3, 1), 0); /* 504 */
    cr_assert_eq(ingest_parse(ingest, batch, &fault), ST_OK);
    cr_assert(flight_load(ingest, batch, TOPIC_EVENTS, &(struct range){0, 6}));
    const struct flight *flight = &ingest->flight;
    cr_assert_eq(flight->part_count, 2);
    cr_assert_eq(flight->picked_count, 4);
    cr_assert_eq(flight->parts[0].start, 100);
    cr_assert_eq(flight->parts[0].end, 104);
    cr_assert_eq(flight->parts[0].records, 3);
    cr_assert_eq(flight->parts[0].tombstones, 1);
    cr_assert_eq(flight->parts[0].generation, 7);
    cr_assert_eq(flight->parts[1].start, 500);
    cr_assert_eq(flight->parts[1].end, 505);
    /* The second half goes on where the first ends. */
    cr_assert(flight_load(ingest, batch, TOPIC_EVENTS, &(struct range){3, 6}));
    cr_assert_eq(flight->parts[0].start, 102);
    cr_assert_eq(flight->parts[0].end, 104);
    cr_assert_eq(flight->parts[1].start, 504);
    cr_assert(flight_load(ingest, batch, TOPIC_DEVICES, &(struct range){0, 6}));
    cr_assert_eq(flight->part_count, 1);
    cr_assert_eq(flight->parts[0].generation, 9);
    cr_assert_not(flight_load(ingest, batch, TOPIC_DEVICES, &(struct range){4, 6}), "nothing of it there");
}
