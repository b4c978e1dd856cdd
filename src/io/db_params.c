/* Values in, Postgres' binary format out, in one bounded buffer. Binary because a text parameter ends at the
 * first NUL without an error, even with its length given: two keys would become one. */
#include <assert.h>
#include <endian.h>
#include <limits.h>
#include <string.h>

#include "io/db.h"

/* The server's type numbers (pg_type.dat); fixed since they were made. */
static const struct {
    unsigned type, array;
} oids[DB_TYPES] = {
    [DB_TEXT] = {25, 1009},   [DB_INT4] = {23, 1007},  [DB_INT8] = {20, 1016},
    [DB_BOOL] = {16, 1000},   [DB_BYTEA] = {17, 1001}, [DB_TIME] = {1184, 1185},
    [DB_UUID] = {2950, 2951}, [DB_JSON] = {114, 199},  [DB_JSONB] = {3802, 3807},
};

static const int64_t EPOCH_2000_US = 946684800000000;

/* An array on the wire: dimensions, has-null flag, element type, count, lower bound. */
enum { HAS_NULL_AT = 4, COUNT_AT = 12 };

void db_params_init(struct db_params *params, size_t bytes_max)
{
    memset(params, 0, sizeof *params);
    buffer_init(&params->bytes, bytes_max < INT_MAX ? bytes_max : INT_MAX);
}

void db_params_done(struct db_params *params)
{
    buffer_done(&params->bytes);
}

void db_params_reset(struct db_params *params)
{
    buffer_reset(&params->bytes);
    params->count = 0;
    params->in_array = params->failed = false;
}

static void add_u32(struct db_params *params, uint32_t value)
{
    value = htobe32(value);
    buffer_add(&params->bytes, &value, sizeof value);
}

static void patch_u32(struct db_params *params, size_t at, uint32_t value)
{
    value = htobe32(value);
    if (!params->bytes.failed)
        memcpy(params->bytes.at + at, &value, sizeof value);
}

static bool begin_param(struct db_params *params, unsigned type)
{
    if (params->count == DB_PARAMS_MAX)
        params->failed = true;
    if (params->failed)
        return false;
    params->starts[params->count] = params->bytes.bytes;
    params->types[params->count] = type;
    return true;
}

static void end_param(struct db_params *params)
{
    params->lengths[params->count] = (int)(params->bytes.bytes - params->starts[params->count]);
    params->count++;
}

void db_params_begin(struct db_params *params, enum db_type type)
{
    assert(!params->in_array);
    params->in_array = true;
    params->array_type = type;
    params->array_count = 0;
    if (!begin_param(params, oids[type].array))
        return;
    add_u32(params, 1);
    add_u32(params, 0);
    add_u32(params, oids[type].type);
    add_u32(params, 0);
    add_u32(params, 1);
}

void db_params_end(struct db_params *params)
{
    assert(params->in_array);
    params->in_array = false;
    if (params->failed)
        return;
    patch_u32(params, params->starts[params->count] + COUNT_AT, (uint32_t)params->array_count);
    end_param(params);
}

/* One value, as a parameter or as an element; mark is put before it when not negative (jsonb's version). */
static void add_value(struct db_params *params, enum db_type type, struct span value, int mark)
{
    size_t bytes = value.bytes + (mark >= 0 ? 1 : 0);
    if (params->in_array) {
        assert(type == params->array_type);
        params->array_count++;
        add_u32(params, (uint32_t)bytes);
    } else if (!begin_param(params, oids[type].type)) {
        return;
    }
    if (mark >= 0)
        buffer_add_byte(&params->bytes, (char)mark);
    buffer_add_span(&params->bytes, value);
    if (!params->in_array)
        end_param(params);
}

void db_params_null(struct db_params *params, enum db_type type)
{
    if (params->in_array) {
        assert(type == params->array_type);
        params->array_count++;
        if (!params->failed)
            patch_u32(params, params->starts[params->count] + HAS_NULL_AT, 1);
        add_u32(params, UINT32_MAX);
    } else if (begin_param(params, oids[type].type)) {
        params->lengths[params->count++] = -1;
    }
}

static void add_span(struct db_params *params, enum db_type type, struct span value, int mark)
{
    if (value.at == NULL)
        db_params_null(params, type);
    else
        add_value(params, type, value, mark);
}

void db_params_text(struct db_params *params, struct span text)
{
    add_span(params, DB_TEXT, text, -1);
}

void db_params_bytea(struct db_params *params, struct span bytes)
{
    add_span(params, DB_BYTEA, bytes, -1);
}

void db_params_json(struct db_params *params, struct span json)
{
    add_span(params, DB_JSON, json, -1);
}

void db_params_jsonb(struct db_params *params, struct span json)
{
    add_span(params, DB_JSONB, json, 1);
}

void db_params_int4(struct db_params *params, int32_t value)
{
    uint32_t wire = htobe32((uint32_t)value);
    add_value(params, DB_INT4, (struct span){(const char *)&wire, sizeof wire}, -1);
}

static void add_int8(struct db_params *params, enum db_type type, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    add_value(params, type, (struct span){(const char *)&wire, sizeof wire}, -1);
}

void db_params_int8(struct db_params *params, int64_t value)
{
    add_int8(params, DB_INT8, value);
}

void db_params_bool(struct db_params *params, bool value)
{
    char wire = value ? 1 : 0;
    add_value(params, DB_BOOL, (struct span){&wire, 1}, -1);
}

void db_params_time(struct db_params *params, int64_t us)
{
    add_int8(params, DB_TIME, us - EPOCH_2000_US);
}

void db_params_uuid(struct db_params *params, const unsigned char uuid[DB_UUID_BYTES])
{
    struct span span = {(const char *)uuid, DB_UUID_BYTES};
    add_span(params, DB_UUID, span, -1);
}

static void add_member(struct db_params *params, enum db_type type, const void *member)
{
    switch (type) {
    case DB_INT4:
        db_params_int4(params, *(const int32_t *)member);
        break;
    case DB_INT8:
        db_params_int8(params, *(const int64_t *)member);
        break;
    case DB_TIME:
        db_params_time(params, *(const int64_t *)member);
        break;
    case DB_BOOL:
        db_params_bool(params, *(const bool *)member);
        break;
    case DB_UUID:
        db_params_uuid(params, member);
        break;
    case DB_TEXT:
    case DB_BYTEA:
    case DB_JSON:
        add_span(params, type, *(const struct span *)member, -1);
        break;
    case DB_JSONB:
        db_params_jsonb(params, *(const struct span *)member);
        break;
    case DB_TYPES:
        break;
    }
}

void db_params_column(struct db_params *params, enum db_type type, const struct db_rows *rows, size_t offset)
{
    db_params_begin(params, type);
    for (size_t i = 0; i < rows->count; i++)
        add_member(params, type, (const char *)rows->at + i * rows->bytes + offset);
    db_params_end(params);
}
