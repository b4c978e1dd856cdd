/* Records of the receipts topic that can never succeed -> belfry.receipts.dlq, as they were, with headers
 * that say why (contracts/events.md). Always holds: a record's offset moves only after its letter was
 * acknowledged. A crash in between writes the letter again: readers tell them apart by origin topic,
 * partition, offset. */
#include "drain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/signals.h"

enum {
    FLUSH_MS = 1000,
    OURS = 8,              /* headers added */
    CUT_BYTES = 16 * 1024, /* what is left of a value that was refused as too large */
    NUMBER_MAX = 24,
    OWED_BYTES_MAX = 64 << 20
};

static void on_delivery(void *context, int64_t opaque, enum status status, const struct fault *fault)
{
    struct drain *drain = context;
    (void)fault;
    for (size_t i = 0; i < drain->batch.count; i++) {
        struct drain_record *record = &drain->batch.records[i];
        if (record->kind != DRAIN_LETTER || record->letter != LETTER_OWED || record->letter_id != opaque)
            continue;
        record->letter = status == ST_OK ? LETTER_ACKED : LETTER_TO_SEND;
        if (status == ST_REJECT)
            record->cut = true;
    }
}

enum status letters_open(struct drain *drain, struct fault *fault)
{
    struct kafka_producer_options options = {.client = {.properties = drain->session.setup->kafka,
                                                        .client_name = "belfry-reconciler-dlq",
                                                        .metrics = drain->session.setup->metrics},
                                             .records_max = DRAIN_RECORDS_MAX,
                                             .bytes_max = OWED_BYTES_MAX,
                                             .context = drain,
                                             .on_delivery = on_delivery};
    return kafka_producer_open(&options, &drain->producer, fault);
}

static void add(struct kafka_header *headers, size_t *count, const char *name, const char *value)
{
    headers[(*count)++] = (struct kafka_header){.name = span_of(name), .value = span_of(value)};
}

static enum status send_letter(struct drain *drain, struct drain_record *letter, struct fault *fault)
{
    const struct kafka_record *record = &letter->record;
    struct kafka_header headers[KAFKA_HEADERS_MAX];
    char partition[NUMBER_MAX], offset[NUMBER_MAX], timestamp[NUMBER_MAX], bytes[NUMBER_MAX];
    size_t count = 0;
    while (count < KAFKA_HEADERS_MAX - OURS && kafka_record_header(record, count, &headers[count]))
        count++;
    snprintf(partition, sizeof partition, "%" PRId32, record->partition);
    snprintf(offset, sizeof offset, "%" PRId64, record->offset);
    snprintf(timestamp, sizeof timestamp, "%" PRId64, record->timestamp_ms);
    snprintf(bytes, sizeof bytes, "%zu", record->value.bytes);
    add(headers, &count, "belfry.error.code", letter->why.code);
    add(headers, &count, "belfry.error.field", letter->why.field);
    add(headers, &count, "belfry.error.message", letter->why.text);
    add(headers, &count, "belfry.origin.topic", drain->session.setup->receipts_topic);
    add(headers, &count, "belfry.origin.partition", partition);
    add(headers, &count, "belfry.origin.offset", offset);
    add(headers, &count, "belfry.origin.timestamp", timestamp);
    struct span value = record->value;
    if (letter->cut) {
        add(headers, &count, "belfry.value.cut", bytes);
        value.bytes = value.bytes < CUT_BYTES ? value.bytes : CUT_BYTES;
    }
    letter->letter_id = ++drain->letters;
    struct kafka_message message = {.topic = drain->session.setup->dlq_topic,
                                    .partition = -1,
                                    .key_null = record->key_null,
                                    .value_null = record->value_null,
                                    .key = record->key,
                                    .value = value,
                                    .headers = headers,
                                    .header_count = count,
                                    .opaque = letter->letter_id,
                                    .timestamp_ms = -1};
    enum status status = kafka_producer_send(drain->producer, &message, fault);
    if (status == ST_REJECT && !letter->cut) {
        letter->cut = true;
        return send_letter(drain, letter, fault);
    }
    if (status == ST_OK)
        letter->letter = LETTER_OWED;
    return status == ST_REJECT ? ST_STOP : status; /* not even 16 KiB fit: an operator has to look */
}

static bool is_letter(const struct drain_record *record, enum letter_state state)
{
    return record->kind == DRAIN_LETTER && record->letter == state;
}

/* One round: sends what is to be sent, waits a while. *left: how many are not acknowledged. */
static enum status flush_round(struct drain *drain, size_t *left, struct fault *fault)
{
    struct drain_batch *batch = &drain->batch;
    for (size_t i = 0; i < batch->count; i++) {
        enum status status = ST_OK;
        if (is_letter(&batch->records[i], LETTER_TO_SEND))
            status = send_letter(drain, &batch->records[i], fault);
        if (status == ST_RETRY)
            break; /* full: some have to be acknowledged first */
        if (status != ST_OK)
            return status;
    }
    enum status status = kafka_producer_flush(drain->producer, FLUSH_MS, fault);
    if (status == ST_FATAL)
        return status;
    *left = 0;
    for (size_t i = 0; i < batch->count; i++)
        *left += batch->records[i].kind == DRAIN_LETTER && batch->records[i].letter != LETTER_ACKED;
    return ST_OK;
}

enum status letters_flush(struct drain *drain, struct fault *fault)
{
    size_t left = 0;
    enum { ROUNDS = 3 }; /* one may end with some refused as too large, to be sent cut */
    for (int round = 0; round < ROUNDS; round++) {
        enum status status = flush_round(drain, &left, fault);
        if (status != ST_OK)
            return status;
        if (left == 0)
            return ST_OK;
        if (signals_stopping())
            break;
    }
    fault_set(fault, "dlq", "%zu records wait for %s to acknowledge them", left,
              drain->session.setup->dlq_topic);
    return ST_RETRY;
}
