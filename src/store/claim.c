/* Events in, one statement out, counts and batch ids back. Nothing is held between two calls but the buffer:
 * a crash before the answer leaves either the whole batch in the database or nothing of it. */
#include "store/claim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/crypto.h"
#include "store/sql.h"

static const struct db_statement statement = {"claim", sql_claim};

static const size_t PARAMS_BYTES_MAX = (size_t)64 * 1024 * 1024;

struct claim {
    struct claim_settings settings;
    struct uuid_maker ids;
    struct db_params params;
    const struct claim_batch *batch; /* on the wire; its shape is needed to name a mismatch */
};

struct claim *claim_new(const struct claim_settings *settings)
{
    struct claim *claim = calloc(1, sizeof *claim);
    if (claim == NULL)
        return NULL;
    claim->settings = *settings;
    db_params_init(&claim->params,
                   settings->params_bytes_max == 0 ? PARAMS_BYTES_MAX : settings->params_bytes_max);
    return claim;
}

void claim_free(struct claim *claim)
{
    if (claim == NULL)
        return;
    db_params_done(&claim->params);
    free(claim);
}

static size_t part_of(const struct claim_batch *batch, const struct event *event)
{
    size_t part = 0;
    while (part < batch->part_count && batch->parts[part].partition != event->partition)
        part++;
    assert(part < batch->part_count);
    return part;
}

/* What a part holds by our own count, the other side of the books: events, or recipients. */
static void add_counts(struct db_params *params, const struct claim_batch *batch, bool recipients)
{
    db_params_begin(params, DB_INT8);
    for (size_t part = 0; part < batch->part_count; part++) {
        int64_t count = 0;
        for (size_t i = 0; i < batch->event_count; i++) {
            const struct event *event = batch->events[i];
            if (event->partition == batch->parts[part].partition)
                count += recipients ? (int64_t)event->recipient_count : 1;
        }
        db_params_int8(params, count);
    }
    db_params_end(params);
}

enum event_span { WORKSPACE, EVENT_TYPE, CATEGORY, TITLE, BODY, TRACEPARENT, DATA, PUSH };

static struct span span_in(const struct event *event, enum event_span which)
{
    struct span none = {NULL, 0};
    switch (which) {
    case WORKSPACE:
        return event->workspace_id;
    case EVENT_TYPE:
        return event->event_type;
    case CATEGORY:
        return event->category;
    case TITLE:
        return event->title;
    case BODY: /* absent is "" */
        return event->body.at == NULL ? span_of("") : event->body;
    case TRACEPARENT:
        return event->traceparent.bytes == 0 ? none : event->traceparent;
    case DATA:
        return event->data.bytes == 0 ? none : event->data;
    case PUSH:
        return event->push_choice == PUSH_OPTIONS ? event->push : none;
    }
    return none;
}

static void add_text(struct db_params *params, const struct claim_batch *batch, enum event_span which)
{
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_text(params, span_in(batch->events[i], which));
    db_params_end(params);
}

static void add_json(struct db_params *params, const struct claim_batch *batch, enum event_span which)
{
    db_params_begin(params, DB_JSON);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_json(params, span_in(batch->events[i], which));
    db_params_end(params);
}

static void add_instant(struct db_params *params, struct instant instant)
{
    if (instant.given)
        db_params_time(params, instant.us);
    else
        db_params_null(params, DB_TIME);
}

static void add_times(struct db_params *params, const struct claim_batch *batch)
{
    db_params_begin(params, DB_TIME);
    for (size_t i = 0; i < batch->event_count; i++)
        add_instant(params, batch->events[i]->occurred_at);
    db_params_end(params);
    db_params_begin(params, DB_TIME);
    for (size_t i = 0; i < batch->event_count; i++)
        add_instant(params, batch->events[i]->expires_at);
    db_params_end(params);
    db_params_begin(params, DB_TIME);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_time(params, batch->events[i]->event_at_us);
    db_params_end(params);
}

static void add_events(struct db_params *params, const struct claim_batch *batch)
{
    db_params_int4(params, (int32_t)batch->event_count);
    db_params_begin(params, DB_INT4);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_int4(params, (int32_t)part_of(batch, batch->events[i]) + 1);
    db_params_end(params);
    add_text(params, batch, WORKSPACE);
    add_text(params, batch, EVENT_TYPE);
    add_text(params, batch, CATEGORY);
    add_text(params, batch, TITLE);
    add_text(params, batch, BODY);
    add_json(params, batch, DATA);
    add_json(params, batch, PUSH);
    add_text(params, batch, TRACEPARENT);
    add_times(params, batch);
    db_params_begin(params, DB_INT8);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_int8(params, batch->events[i]->content_hash);
    db_params_end(params);
    db_params_begin(params, DB_BOOL);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_bool(params, batch->events[i]->push_choice == PUSH_OFF);
    db_params_end(params);
    db_params_begin(params, DB_BOOL);
    for (size_t i = 0; i < batch->event_count; i++)
        db_params_bool(params, batch->events[i]->urgent);
    db_params_end(params);
}

enum recipient_part { OF_EVENT, USER, KEY, ID, HASH };

static void add_recipient(struct claim *claim, const struct claim_batch *batch, size_t event, uint32_t i,
                          enum recipient_part which)
{
    const struct recipient *recipient = &batch->events[event]->recipients[i];
    switch (which) {
    case OF_EVENT:
        db_params_int4(&claim->params, (int32_t)event + 1);
        break;
    case USER:
        db_params_text(&claim->params, recipient->user_id);
        break;
    case KEY:
        db_params_text(&claim->params, recipient->key);
        break;
    case ID: {
        /* In consumption order, which so survives inside one statement's single created_at. */
        struct uuid id = uuid_make(&claim->ids, batch->now_us);
        db_params_uuid(&claim->params, id.bytes);
        break;
    }
    case HASH: { /* what a tombstone is found by: made here, for the server takes ten times as long */
        unsigned char digest[CRYPTO_SHA256_BYTES];
        crypto_sha256(&recipient->user_id, 1, digest);
        db_params_bytea(&claim->params, (struct span){(const char *)digest, sizeof digest});
        break;
    }
    }
}

/* One array over the recipients of all events. */
static void add_column(struct claim *claim, const struct claim_batch *batch, enum recipient_part which)
{
    static const enum db_type types[] = {
        [OF_EVENT] = DB_INT4, [USER] = DB_TEXT, [KEY] = DB_TEXT, [ID] = DB_UUID, [HASH] = DB_BYTEA};
    db_params_begin(&claim->params, types[which]);
    for (size_t event = 0; event < batch->event_count; event++) {
        for (uint32_t i = 0; i < batch->events[event]->recipient_count; i++)
            add_recipient(claim, batch, event, i, which);
    }
    db_params_end(&claim->params);
}

static void add_recipients(struct claim *claim, const struct claim_batch *batch)
{
    int32_t count = 0;
    for (size_t event = 0; event < batch->event_count; event++)
        count += (int32_t)batch->events[event]->recipient_count;
    db_params_int4(&claim->params, count);
    for (enum recipient_part which = OF_EVENT; which <= ID; which++)
        add_column(claim, batch, which);
}

enum status claim_send(struct claim *claim, struct db *db, const struct claim_batch *batch, uint64_t tag,
                       struct fault *fault)
{
    const struct claim_settings *settings = &claim->settings;
    struct db_params *params = &claim->params;
    db_params_reset(params);
    db_params_text(params, span_of(settings->scope.group_id));
    db_params_text(params, span_of(settings->scope.topic));
    db_params_int4(params, (int32_t)batch->part_count);
    offsets_params(params, batch->parts, batch->part_count);
    add_counts(params, batch, false);
    add_counts(params, batch, true);
    add_events(params, batch);
    add_recipients(claim, batch);
    db_params_int4(params, settings->devices_per_user_max);
    db_params_int8(params, settings->push_max_age_ms);
    if (batch->take)
        db_params_int8(params, settings->scope.owner);
    else
        db_params_null(params, DB_INT8);
    db_params_int8(params, settings->lease_ms);
    add_column(claim, batch, HASH);
    db_params_bool(params, settings->announce);
    claim->batch = batch;
    return db_send(db, &statement, params, tag, fault);
}

enum column {
    MOVED,
    CREATED_AT,
    NOTIFICATIONS,
    DUPLICATES,
    ERASED,
    DISPATCHES,
    SUPPRESSED,
    URGENT_BATCH,
    URGENT_UNSENT,
    NORMAL_BATCH,
    NORMAL_UNSENT,
    MISMATCHES,
    MISMATCH
};

static void read_batch(const struct db_result *result, enum column id, struct claim_outcome *outcome)
{
    if (db_result_is_null(result, 0, (int)id))
        return;
    outcome->batches[outcome->batch_count++] =
        (struct handover_batch){.batch_id = db_result_int8(result, 0, (int)id),
                                .urgent = id == URGENT_BATCH,
                                .unsent = (uint32_t)db_result_int4(result, 0, (int)id + 1)};
}

/* The statement counts recipients over the whole batch, from 1. */
static void read_mismatch(const struct claim_batch *batch, int32_t number, struct claim_outcome *outcome)
{
    uint32_t left = (uint32_t)number - 1;
    uint32_t event = 0;
    while (event < batch->event_count && left >= batch->events[event]->recipient_count)
        left -= batch->events[event++]->recipient_count;
    assert(event < batch->event_count);
    outcome->mismatches[outcome->mismatches_held].event = event;
    outcome->mismatches[outcome->mismatches_held].recipient = left;
    outcome->mismatches_held++;
}

enum status claim_finish(struct claim *claim, struct db_answer *answer, struct claim_outcome *outcome,
                         struct fault *fault)
{
    if (answer->status != ST_OK) {
        if (fault != NULL)
            *fault = answer->fault;
        return answer->status;
    }
    const struct db_result *result = answer->result;
    *outcome = (struct claim_outcome){.moved = db_result_bool(result, 0, MOVED),
                                      .created_at_us = db_result_time(result, 0, CREATED_AT),
                                      .notifications = db_result_int8(result, 0, NOTIFICATIONS),
                                      .duplicates = db_result_int8(result, 0, DUPLICATES),
                                      .erased = db_result_int8(result, 0, ERASED),
                                      .dispatches = db_result_int8(result, 0, DISPATCHES),
                                      .suppressed = db_result_int8(result, 0, SUPPRESSED),
                                      .mismatch_count = db_result_int8(result, 0, MISMATCHES)};
    read_batch(result, URGENT_BATCH, outcome);
    read_batch(result, NORMAL_BATCH, outcome);
    for (int row = 0; row < db_result_rows(result) && row < CLAIM_MISMATCHES_MAX; row++) {
        if (!db_result_is_null(result, row, MISMATCH))
            read_mismatch(claim->batch, db_result_int4(result, row, MISMATCH), outcome);
    }
    db_result_free(answer->result);
    answer->result = NULL;
    return ST_OK;
}

enum status claim_run(struct claim *claim, struct db *db, const struct claim_batch *batch,
                      struct claim_outcome *outcome, struct fault *fault)
{
    enum status status = claim_send(claim, db, batch, 0, fault);
    if (status != ST_OK)
        return status;
    struct db_answer answer;
    while (!db_take(db, &answer))
        (void)db_wait(db, 1000);
    return claim_finish(claim, &answer, outcome, fault);
}
