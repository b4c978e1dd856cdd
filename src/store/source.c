/* In: a feed's description, texts of a client. Out: ids and values as the database takes them. Always: one
 * meaning is one value, and nothing of a client's becomes SQL. A crash here loses one answer. */
#include "store/source.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const struct source source_notifications = {
    .name = "notifications",
    .relation = "notifications",
    .workspace = "workspace_id",
    .recipient = "recipient_user_id",
    .id_type = SOURCE_UUID,
    .items_key = "items",
    .columns = {{"id", "id", SOURCE_UUID, false},
                {"event_type", "event_type", SOURCE_TEXT, false},
                {"category", "category", SOURCE_TEXT, false},
                {"title", "title", SOURCE_TEXT, false},
                {"body", "body", SOURCE_TEXT, false},
                {"data", "data", SOURCE_JSON, true},
                {"occurred_at", "occurred_at", SOURCE_TIME, false},
                {"created_at", "created_at", SOURCE_TIME, false},
                {"read_at", "read_at", SOURCE_TIME, false}},
    .column_count = 9,
    .filters = {{"category", "category", SOURCE_TEXT, 100}, {"event_type", "event_type", SOURCE_TEXT, 200}},
    .filter_count = 2,
    .flag = "unread",
    .flag_sql = "n.read_at IS NULL",
    .auth = SOURCE_MEMBER,
    .xid = "inserted_xid",
    .settled = "notifications",
};

/* ---- ids ----------------------------------------------------------------------------------------------- */

int source_id_compare(const struct source_id *a, const struct source_id *b)
{
    if (a->type == SOURCE_UUID)
        return memcmp(a->uuid.bytes, b->uuid.bytes, sizeof a->uuid.bytes);
    if (a->type == SOURCE_BIGINT)
        return (a->number > b->number) - (a->number < b->number);
    int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

struct source_id source_id_lowest(enum source_type type)
{
    return (struct source_id){.type = type, .number = INT64_MIN};
}

struct source_id source_id_highest(enum source_type type)
{
    static const unsigned char last[] = {0xf4, 0x8f, 0xbf, 0xbf}; /* U+10FFFF */
    struct source_id id = {.type = type, .number = INT64_MAX, .bytes = SOURCE_ID_TEXT_MAX};
    memset(id.uuid.bytes, 0xff, sizeof id.uuid.bytes);
    for (size_t i = 0; i < sizeof id.text; i++)
        id.text[i] = (char)last[i % sizeof last];
    return id;
}

void source_id_bind(const struct source_id *id, struct db_params *params)
{
    if (id->type == SOURCE_UUID)
        db_params_uuid(params, id->uuid.bytes);
    else if (id->type == SOURCE_BIGINT)
        db_params_int8(params, id->number);
    else
        db_params_text(params, (struct span){id->text, id->bytes});
}

/* ---- values -------------------------------------------------------------------------------------------- */

static bool source_read_number(struct span text, int64_t least, int64_t most, int64_t *number)
{
    bool below = text.bytes > 0 && text.at[0] == '-';
    int64_t value = 0;
    if (text.bytes == (below ? 1 : 0))
        return false;
    for (size_t i = below ? 1 : 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        int digit = text.at[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, below ? -digit : digit, &value))
            return false;
    }
    *number = value;
    return value >= least && value <= most;
}

bool source_value_parse(const struct source_filter *filter, struct span text, struct source_value *value)
{
    struct source_value read = {.given = true, .text = text};
    bool fits = false;
    switch (filter->type) {
    case SOURCE_TEXT:
        fits = text.bytes > 0 && text.bytes <= filter->bytes_max && utf8_is_text(text);
        break;
    case SOURCE_INTEGER:
        fits = source_read_number(text, INT32_MIN, INT32_MAX, &read.number);
        break;
    case SOURCE_BIGINT:
        fits = source_read_number(text, INT64_MIN, INT64_MAX, &read.number);
        break;
    case SOURCE_BOOLEAN:
        read.number = span_is(text, "true");
        fits = read.number == 1 || span_is(text, "false");
        break;
    case SOURCE_UUID:
        fits = uuid_parse(text, &read.uuid);
        break;
    case SOURCE_NUMERIC:
    case SOURCE_TIME:
    case SOURCE_JSON:
    default:
        break; /* no filter is of these */
    }
    if (fits)
        *value = read;
    return fits;
}

struct span source_value_text(const struct source_filter *filter, const struct source_value *value,
                              char *room)
{
    if (filter->type == SOURCE_TEXT)
        return value->text;
    if (filter->type == SOURCE_BOOLEAN)
        return span_of(value->number != 0 ? "true" : "false");
    if (filter->type == SOURCE_UUID)
        uuid_format(value->uuid, room);
    else
        snprintf(room, SOURCE_VALUE_ROOM, "%lld", (long long)value->number);
    return span_of(room);
}

static enum db_type source_db_type(enum source_type type)
{
    if (type == SOURCE_INTEGER)
        return DB_INT4;
    if (type == SOURCE_BIGINT)
        return DB_INT8;
    if (type == SOURCE_BOOLEAN)
        return DB_BOOL;
    return type == SOURCE_UUID ? DB_UUID : DB_TEXT;
}

void source_value_bind(const struct source_filter *filter, const struct source_value *value,
                       struct db_params *params)
{
    enum db_type type = source_db_type(filter->type);
    if (!value->given)
        db_params_null(params, type);
    else if (type == DB_INT4)
        db_params_int4(params, (int32_t)value->number);
    else if (type == DB_INT8)
        db_params_int8(params, value->number);
    else if (type == DB_BOOL)
        db_params_bool(params, value->number != 0);
    else if (type == DB_UUID)
        db_params_uuid(params, value->uuid.bytes);
    else
        db_params_text(params, value->text);
}

/* E'…' means the same whatever standard_conforming_strings is. */
void source_write_literal(struct buffer *sql, const char *text)
{
    buffer_add_text(sql, "E'");
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            buffer_add_byte(sql, *text);
        buffer_add_byte(sql, *text);
    }
    buffer_add_byte(sql, '\'');
}
