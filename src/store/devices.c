/* Device records in, one statement out. A crash before the answer leaves all of the batch or nothing of it.
 */
#include "store/devices.h"

#include <assert.h>
#include <stdlib.h>

#include "store/sql.h"

static const struct db_statement statement = {"devices_apply", sql_devices_apply};

static const size_t PARAMS_BYTES_MAX = (size_t)64 * 1024 * 1024;

struct devices {
    struct offsets_scope scope;
    struct db_params params;
};

struct devices *devices_new(const struct offsets_scope *scope)
{
    struct devices *devices = calloc(1, sizeof *devices);
    if (devices == NULL)
        return NULL;
    devices->scope = *scope;
    db_params_init(&devices->params, PARAMS_BYTES_MAX);
    return devices;
}

void devices_free(struct devices *devices)
{
    if (devices == NULL)
        return;
    db_params_done(&devices->params);
    free(devices);
}

static void add_event_counts(struct db_params *params, const struct devices_batch *batch)
{
    int64_t counted = 0;
    db_params_begin(params, DB_INT8);
    for (size_t part = 0; part < batch->part_count; part++) {
        int64_t count = 0;
        for (size_t i = 0; i < batch->change_count; i++)
            count += batch->changes[i]->partition == batch->parts[part].partition;
        db_params_int8(params, count);
        counted += count;
    }
    db_params_end(params);
    assert(counted == (int64_t)batch->change_count);
}

enum change_span { TOKEN, USER, PLATFORM, APP_VERSION };

static struct span span_in(const struct device_change *change, enum change_span which)
{
    struct span none = {NULL, 0};
    switch (which) {
    case TOKEN:
        return change->token;
    case USER:
        return change->enable ? change->user_id : none;
    case PLATFORM:
        return change->enable ? change->platform : none;
    case APP_VERSION:
        return change->app_version.bytes == 0 ? none : change->app_version;
    }
    return none;
}

static void add_changes(struct db_params *params, const struct devices_batch *batch)
{
    db_params_begin(params, DB_BOOL);
    for (size_t i = 0; i < batch->change_count; i++)
        db_params_bool(params, batch->changes[i]->enable);
    db_params_end(params);
    for (enum change_span which = TOKEN; which <= APP_VERSION; which++) {
        db_params_begin(params, DB_TEXT);
        for (size_t i = 0; i < batch->change_count; i++)
            db_params_text(params, span_in(batch->changes[i], which));
        db_params_end(params);
    }
    db_params_begin(params, DB_TIME);
    for (size_t i = 0; i < batch->change_count; i++)
        db_params_time(params, batch->changes[i]->at_us);
    db_params_end(params);
}

enum status devices_send(struct devices *devices, struct db *db, const struct devices_batch *batch,
                         uint64_t tag, struct fault *fault)
{
    struct db_params *params = &devices->params;
    db_params_reset(params);
    db_params_text(params, span_of(devices->scope.group_id));
    db_params_text(params, span_of(devices->scope.topic));
    db_params_int4(params, (int32_t)batch->part_count);
    offsets_params(params, batch->parts, batch->part_count);
    add_event_counts(params, batch);
    add_changes(params, batch);
    return db_send(db, &statement, params, tag, fault);
}

enum status devices_finish(struct db_answer *answer, struct devices_outcome *outcome, struct fault *fault)
{
    if (answer->status != ST_OK) {
        if (fault != NULL)
            *fault = answer->fault;
        return answer->status;
    }
    const struct db_result *result = answer->result;
    *outcome = (struct devices_outcome){.moved = db_result_bool(result, 0, 0),
                                        .registered = db_result_int8(result, 0, 1),
                                        .moved_owner = db_result_int8(result, 0, 2),
                                        .disabled = db_result_int8(result, 0, 3),
                                        .seen = db_result_int8(result, 0, 4),
                                        .ignored = db_result_int8(result, 0, 5)};
    db_result_free(answer->result);
    answer->result = NULL;
    return ST_OK;
}

enum status devices_run(struct devices *devices, struct db *db, const struct devices_batch *batch,
                        struct devices_outcome *outcome, struct fault *fault)
{
    enum status status = devices_send(devices, db, batch, 0, fault);
    if (status != ST_OK)
        return status;
    struct db_answer answer;
    while (!db_take(db, &answer))
        (void)db_wait(db, 1000);
    return devices_finish(&answer, outcome, fault);
}
