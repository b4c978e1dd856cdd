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

/* One value that is not NULL. */
struct row_cell {
    const struct source *source;
    const struct source_column *column;
    const struct db_result *result;
    int row, at;
};

static void row_write_text(struct buffer *out, const struct row_cell *cell)
{
    json_out_string(out, db_result_text(cell->result, cell->row, cell->at));
}

static void row_write_integer(struct buffer *out, const struct row_cell *cell)
{
    json_out_int(out, db_result_int4(cell->result, cell->row, cell->at));
}

static void row_write_bigint(struct buffer *out, const struct row_cell *cell)
{
    int64_t value = db_result_int8(cell->result, cell->row, cell->at);
    if (cell->source->id_number && strcmp(cell->column->name, "id") == 0)
        json_out_int(out, value);
    else
        json_out_id(out, value);
}

static void row_write_boolean(struct buffer *out, const struct row_cell *cell)
{
    buffer_add_text(out, db_result_bool(cell->result, cell->row, cell->at) ? "true" : "false");
}

static void row_write_time(struct buffer *out, const struct row_cell *cell)
{
    json_out_instant(out, db_result_time(cell->result, cell->row, cell->at));
}

static void row_write_uuid(struct buffer *out, const struct row_cell *cell)
{
    struct uuid id;
    memcpy(id.bytes, db_result_uuid(cell->result, cell->row, cell->at), sizeof id.bytes);
    json_out_uuid(out, id);
}

static void row_write_json(struct buffer *out, const struct row_cell *cell)
{
    buffer_add_span(out, db_result_text(cell->result, cell->row, cell->at));
}

static void (*const row_writers[])(struct buffer *out, const struct row_cell *cell) = {
    [SOURCE_TEXT] = row_write_text,       [SOURCE_INTEGER] = row_write_integer,
    [SOURCE_BIGINT] = row_write_bigint,   [SOURCE_NUMERIC] = row_write_text,
    [SOURCE_BOOLEAN] = row_write_boolean, [SOURCE_TIME] = row_write_time,
    [SOURCE_UUID] = row_write_uuid,       [SOURCE_JSON] = row_write_json,
};

void row_write(struct buffer *out, const struct row_form *form, const struct db_result *result, int row,
               int first)
{
    const struct source *source = form->source;
    for (size_t i = 0; i < source->column_count; i++) {
        const struct source_column *column = &source->columns[i];
        struct row_cell cell = {source, column, result, row, first + (int)i};
        buffer_add(out, form->names.at + form->members[i].from, form->members[i].bytes);
        if (db_result_is_null(result, row, cell.at))
            buffer_add_text(out, column->object ? "{}" : "null");
        else
            row_writers[column->type](out, &cell);
    }
    buffer_add_byte(out, '}');
}
