/* Records that can never succeed -> the dead letter topic: key, value and headers as they were, and headers
 * saying why. Their offset moves on only once the topic has acknowledged them; a crash in between writes them
 * again, so readers tell them apart by origin topic, partition, offset.
 *
 * A letter refused as too large goes again with its value cut and a header saying so; a topic that is missing
 * or forbidden makes us not ready, and nothing moves until an operator acts. */
#include <stdio.h>
#include <string.h>

#include "base/crash.h"
#include "base/log.h"
#include "ingest_private.h"
#include "wire/trace.h"

enum { INDEX_BITS = 20, CUT_VALUE_BYTES = 64 * 1024, CUT_KEY_BYTES = 1024, CUTS_MAX = 2 };
enum { OUR_HEADERS = 8, NUMBER_MAX = 24 };

/* ---- marking ------------------------------------------------------------------------------------------- */

bool dead_letter_mark(struct ingest *ingest, struct batch *batch, struct item *item,
                      const struct fault *reason)
{
    struct fault *kept = arena_alloc(&batch->faults, sizeof *kept);
    if (kept == NULL) {
        return false;
    }
    *kept = *reason;
    item->kind = ITEM_DEAD;
    item->reason = kept;
    item->dead = DEAD_TO_SEND;
    item->cut = 0;
    batch->dead_unsettled++;
    struct span trace = {NULL, 0};
    if (kafka_record_find_header(&item->record, "traceparent", &trace)) {
        trace = trace_id_of(trace);
    }
    log_event(LOG_WARN, "ING-DEAD", "a record goes to the dead letters",
              log_text("topic", ingest_topic(ingest, item->record.topic)),
              log_int("partition", item->record.partition), log_int("offset", item->record.offset),
              log_text("code", kept->code), log_text("field", kept->field), log_text("detail", kept->text),
              trace.bytes > 0 ? log_span("trace_id", trace) : log_end());
    return true;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

struct letter {
    struct kafka_header headers[KAFKA_HEADERS_MAX];
    size_t count;
    char numbers[4][NUMBER_MAX];
    size_t number_count;
};

static void add_text(struct letter *letter, const char *name, struct span value)
{
    letter->headers[letter->count++] = (struct kafka_header){span_of(name), value};
}

static void add_number(struct letter *letter, const char *name, int64_t value)
{
    char *text = letter->numbers[letter->number_count++];
    (void)snprintf(text, NUMBER_MAX, "%lld", (long long)value);
    add_text(letter, name, span_of(text));
}

/* The headers it came with, as many as there is room for, then ours. */
static void letter_address(const struct ingest *ingest, const struct item *item, struct letter *letter)
{
    const struct kafka_record *record = &item->record;
    letter->count = 0;
    letter->number_count = 0;
    if (item->cut < CUTS_MAX) {
        while (letter->count < KAFKA_HEADERS_MAX - OUR_HEADERS &&
               kafka_record_header(record, letter->count, &letter->headers[letter->count])) {
            letter->count++;
        }
    }
    add_text(letter, "belfry.error.code", span_of(item->reason->code));
    add_text(letter, "belfry.error.field", span_of(item->reason->field));
    add_text(letter, "belfry.error.message", span_of(item->reason->text));
    add_text(letter, "belfry.origin.topic", span_of(ingest_topic(ingest, record->topic)));
    add_number(letter, "belfry.origin.partition", record->partition);
    add_number(letter, "belfry.origin.offset", record->offset);
    add_number(letter, "belfry.origin.timestamp", record->timestamp_ms);
    if (item->cut > 0) {
        add_number(letter, "belfry.error.cut", (int64_t)record->value.bytes);
    }
}

static struct span cut_to(struct span span, size_t bytes_max)
{
    return (struct span){span.at, span.bytes < bytes_max ? span.bytes : bytes_max};
}

static struct kafka_message letter_write(const struct ingest *ingest, const struct item *item,
                                         const struct letter *letter)
{
    const struct kafka_record *record = &item->record;
    struct kafka_message message = {.topic = ingest->setup.topics->dlq,
                                    .partition = -1,
                                    .key_null = record->key_null,
                                    .value_null = record->value_null,
                                    .key = record->key,
                                    .value = record->value,
                                    .headers = letter->headers,
                                    .header_count = letter->count,
                                    .timestamp_ms = -1};
    if (item->cut == 1) {
        message.value = cut_to(record->value, CUT_VALUE_BYTES);
    } else if (item->cut >= CUTS_MAX) {
        message.value = cut_to(record->value, 0);
        message.key = cut_to(record->key, CUT_KEY_BYTES);
    }
    return message;
}

static enum status send_one(struct ingest *ingest, struct batch *batch, size_t index, struct fault *fault)
{
    struct item *item = &batch->items[index];
    struct letter letter;
    letter_address(ingest, item, &letter);
    struct kafka_message message = letter_write(ingest, item, &letter);
    message.opaque = batch->serial << INDEX_BITS | (int64_t)index;
    enum status status = kafka_producer_send(ingest->dead_letters, &message, fault);
    if (status == ST_OK) {
        item->dead = DEAD_SENT;
    }
    return status;
}

enum status dead_letter_send(struct ingest *ingest, struct batch *batch, struct fault *fault)
{
    if (clock_monotonic_ms(&ingest->clock) < batch->dead_retry_ms) {
        return ST_OK;
    }
    for (size_t i = 0; i < batch->parsed; i++) {
        struct item *item = &batch->items[i];
        if (item->kind != ITEM_DEAD || item->dead != DEAD_TO_SEND) {
            continue;
        }
        enum status status = send_one(ingest, batch, i, fault);
        if (status == ST_REJECT && item->cut < CUTS_MAX) {
            item->cut++;
            i--; /* the same again, smaller */
            continue;
        }
        if (status == ST_REJECT || status == ST_STOP) {
            ingest_say_stopped(ingest, "the dead letter topic refuses", status, fault);
            batch->dead_retry_ms = clock_monotonic_ms(&ingest->clock) + SLOW_RETRY_MS;
            return ST_OK;
        }
        if (status != ST_OK) {
            return status == ST_RETRY ? ST_OK : status; /* full: after the next deliveries */
        }
    }
    return ST_OK;
}

/* ---- acknowledged -------------------------------------------------------------------------------------- */

static struct item *find(struct ingest *ingest, int64_t opaque, struct batch **batch)
{
    for (size_t i = 0; i < 2; i++) {
        struct batch *candidate = &ingest->batches[i];
        size_t index = (size_t)(opaque & ((1 << INDEX_BITS) - 1));
        if (candidate->serial == opaque >> INDEX_BITS && index < candidate->count) {
            *batch = candidate;
            return &candidate->items[index];
        }
    }
    return NULL;
}

void dead_letter_delivered(void *context, int64_t opaque, enum status status, const struct fault *fault)
{
    struct ingest *ingest = context;
    struct batch *batch = NULL;
    struct item *item = find(ingest, opaque, &batch);
    if (item == NULL || item->kind != ITEM_DEAD || item->dead != DEAD_SENT) {
        return; /* its partition went to someone else meanwhile, who writes it again */
    }
    if (status == ST_OK) {
        item->dead = DEAD_ACKNOWLEDGED;
        metric_add(ingest->metrics, M_DEAD_LETTERS,
                   metric_value_index(&ingest_metric_rows[M_DEAD_LETTERS], item->reason->code), 1);
        batch->dead_unsettled--;
        return;
    }
    item->dead = DEAD_TO_SEND;
    if (status == ST_REJECT && item->cut < CUTS_MAX) {
        item->cut++;
        return;
    }
    ingest_say_stopped(ingest, "the dead letter topic refuses", status, fault);
    batch->dead_retry_ms = clock_monotonic_ms(&ingest->clock) + SLOW_RETRY_MS;
}

static bool has_dead(const struct batch *batch)
{
    size_t i = 0;
    while (i < batch->parsed && batch->items[i].kind != ITEM_DEAD) {
        i++;
    }
    return i < batch->parsed;
}

enum status ingest_dead_letter(struct ingest *ingest, struct batch *batch, struct fault *fault)
{
    while (batch->dead_unsettled > 0 && !ingest_must_leave(ingest)) {
        enum status status = dead_letter_send(ingest, batch, fault);
        if (status == ST_OK) {
            status = ingest_idle(ingest, 100, fault);
        }
        if (status != ST_OK) {
            return status;
        }
    }
    if (batch->dead_unsettled > 0) {
        return ST_STOP;
    }
    if (has_dead(batch)) { /* acknowledged, most often while the batch before this one was at work */
        CRASH_POINT("dead_letter");
    }
    return ST_OK;
}
