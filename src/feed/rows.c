/* In: a row. Out: its JSON object. Always: valid JSON whatever the row holds; numbers that JavaScript would
 * round are strings. A crash here loses one answer. */
#include "feed/rows.h"

#include "wire/json_out.h"

enum { NAMES_BYTES_MAX = 64 * 1024 };

enum status row_form_init(struct row_form *form, const struct source *source, struct fault *fault)
{
    *form = (struct row_form){.source = source};
    buffer_init(&form->names, NAMES_BYTES_MAX);
    for (size_t i = 0; i < source->column_count; i++) {
        form->members[i].from = form->names.bytes;
        buffer_add_byte(&form->names, i == 0 ? '{' : ',');
        json_out_string(&form->names, span_of(source->columns[i].name));
        buffer_add_byte(&form->names, ':');
        form->members[i].bytes = form->names.bytes - form->members[i].from;
    }
    if (!form->names.failed)
        return ST_OK;
    fault_set(fault, "memory", "no memory for the feed's names");
    return ST_FATAL;
}

void row_form_done(struct row_form *form)
{
    buffer_done(&form->names);
}

static void row_write_bigint(struct buffer *out, const struct source *source,
                             const struct source_column *column, int64_t value)
{
    if (source->id_number && strcmp(column->name, "id") == 0)
        json_out_int(out, value);
    else
        json_out_id(out, value);
}

static void row_write_uuid(struct buffer *out, const unsigned char *bytes)
{
    struct uuid id;
    memcpy(id.bytes, bytes, sizeof id.bytes);
    json_out_uuid(out, id);
}

static void row_write_value(struct buffer *out, const struct source *source, size_t column,
                            const struct db_result *result, int row, int at)
{
    const struct source_column *of = &source->columns[column];
    switch (of->type) {
    case SOURCE_TEXT:
    case SOURCE_NUMERIC:
        json_out_string(out, db_result_text(result, row, at));
        return;
    case SOURCE_INTEGER:
        json_out_int(out, db_result_int4(result, row, at));
        return;
    case SOURCE_BIGINT:
        row_write_bigint(out, source, of, db_result_int8(result, row, at));
        return;
    case SOURCE_BOOLEAN:
        buffer_add_text(out, db_result_bool(result, row, at) ? "true" : "false");
        return;
    case SOURCE_TIME:
        json_out_instant(out, db_result_time(result, row, at));
        return;
    case SOURCE_UUID:
        row_write_uuid(out, db_result_uuid(result, row, at));
        return;
    case SOURCE_JSON:
    default:
        buffer_add_span(out, db_result_text(result, row, at));
    }
}

void row_write(struct buffer *out, const struct row_form *form, const struct db_result *result, int row,
               int first)
{
    const struct source *source = form->source;
    for (size_t i = 0; i < source->column_count; i++) {
        int at = first + (int)i;
        buffer_add(out, form->names.at + form->members[i].from, form->members[i].bytes);
        if (db_result_is_null(result, row, at))
            buffer_add_text(out, source->columns[i].object ? "{}" : "null");
        else
            row_write_value(out, source, i, result, row, at);
    }
    buffer_add_byte(out, '}');
}
