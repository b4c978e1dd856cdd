/* In: ranges of an export's rows. Out: their text. Always: line n is ordinal n; a row that is missing is an
 * error, never a shorter text. A crash here loses one download. */
#include "feed/export_text.h"

#include "wire/csv.h"

static bool text_is_number(const void *context, struct span name)
{
    const struct source *source = context;
    for (size_t i = 0; i < source->column_count; i++)
        if (span_is(name, source->columns[i].name))
            return source->columns[i].type == SOURCE_BIGINT || source->columns[i].type == SOURCE_NUMERIC;
    return false;
}

/* A row's JSON is one line: a line end in it can only stand between the tokens of a producer's `data`. */
static void text_add_line(struct buffer *out, struct span row)
{
    size_t from = out->bytes;
    buffer_add_span(out, row);
    for (size_t i = from; i < out->bytes; i++)
        if (out->at[i] == '\n' || out->at[i] == '\r')
            out->at[i] = ' ';
    buffer_add_byte(out, '\n');
}

/* The names the rows have: a feed's columns may have changed since. */
static enum status text_add_header(const struct export_text *text, const struct db_result *result,
                                   struct buffer *out, struct fault *fault)
{
    int64_t ordinal = 0;
    if (export_row_count(result) > 0)
        return csv_write_header(out, export_row(result, 0, &ordinal), fault);
    for (size_t i = 0; i < text->source->column_count; i++) {
        if (i > 0)
            buffer_add_byte(out, ',');
        csv_write_text(out, span_of(text->source->columns[i].name));
    }
    buffer_add_text(out, "\r\n");
    return ST_OK;
}

static enum status text_hole(struct fault *fault)
{
    fault_set(fault, "hole", "rows of the export are missing");
    return ST_STOP;
}

enum status export_text_add(struct export_text *text, const struct db_result *result, struct buffer *out,
                            struct fault *fault)
{
    const struct csv_numbers numbers = {text_is_number, text->source};
    enum status status = ST_OK;
    int count = export_row_count(result);
    if (text->csv && text->after == 0)
        status = text_add_header(text, result, out, fault);
    for (int i = 0; status == ST_OK && i < count; i++) {
        int64_t ordinal = 0;
        struct span row = export_row(result, i, &ordinal);
        if (ordinal != text->after + 1)
            return text_hole(fault);
        text->after = ordinal;
        if (text->csv)
            status = csv_write_row(out, row, &numbers, fault);
        else
            text_add_line(out, row);
    }
    if (status == ST_OK && (out->failed || (count == 0 && text->after < text->rows)))
        return text_hole(fault);
    if (status == ST_OK && !text->csv && export_text_is_whole(text))
        buffer_printf(out, "{\"_end\":{\"rows\":%lld}}\n", (long long)text->rows);
    return status;
}

bool export_text_is_whole(const struct export_text *text)
{
    return text->after >= text->rows;
}
