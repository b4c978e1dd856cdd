/* In: the feeds a reader serves. Out: its OpenAPI document. Always: nothing of a column but its name and
 * type, and no name of the database's. A crash here loses one answer. */
#include "feed/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/openapi.h"

enum { DOCUMENT_BYTES_MAX = 2 * 1024 * 1024, SCHEMA_MAX = 160 };

/* What a column may be on a page: NULL is null, but for the sort key. */
static const char *document_column_schema(const struct source *source, const struct source_column *column)
{
    static const char *const shown[] = {
        [SOURCE_TEXT] = "{\"type\":[\"string\",\"null\"]}",
        [SOURCE_INTEGER] = "{\"type\":[\"integer\",\"null\"],\"format\":\"int32\"}",
        [SOURCE_BIGINT] = "{\"type\":[\"string\",\"null\"],\"pattern\":\"^-?[0-9]+$\"}",
        [SOURCE_NUMERIC] = "{\"type\":[\"string\",\"null\"],\"description\":\"A number, digits as stored.\"}",
        [SOURCE_BOOLEAN] = "{\"type\":[\"boolean\",\"null\"]}",
        [SOURCE_TIME] = "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}",
        [SOURCE_UUID] = "{\"type\":[\"string\",\"null\"],\"format\":\"uuid\"}",
        [SOURCE_JSON] = "{\"description\":\"JSON, as stored.\"}",
    };
    if (strcmp(column->sql, "created_at") == 0)
        return "{\"type\":\"string\",\"format\":\"date-time\"}";
    if (strcmp(column->sql, "id") != 0)
        return shown[column->type];
    if (source->id_type == SOURCE_UUID)
        return "{\"type\":\"string\",\"format\":\"uuid\"}";
    if (source->id_type == SOURCE_TEXT)
        return "{\"type\":\"string\"}";
    return source->id_number ? "{\"type\":\"integer\",\"format\":\"int64\"}"
                             : "{\"type\":\"string\",\"pattern\":\"^-?[0-9]+$\"}";
}

static const char int64_schema[] =
    "{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}";

static void document_filter_schema(const struct source_filter *filter, char *schema)
{
    static const char *const taken[] = {
        [SOURCE_TEXT] = "", /* has its own length */
        [SOURCE_INTEGER] = "{\"type\":\"integer\",\"minimum\":-2147483648,\"maximum\":2147483647}",
        [SOURCE_BIGINT] = int64_schema,
        [SOURCE_BOOLEAN] = "{\"type\":\"boolean\"}",
        [SOURCE_UUID] = "{\"type\":\"string\",\"format\":\"uuid\"}",
    };
    if (filter->type == SOURCE_TEXT)
        snprintf(schema, SCHEMA_MAX,
                 "{\"type\":\"string\",\"minLength\":1,\"maxLength\":%zu,\"pattern\":\"^[^\\\\u0000]+$\"}",
                 filter->bytes_max);
    else
        snprintf(schema, SCHEMA_MAX, "%s", taken[filter->type]);
}

/* What wire/openapi is told of a feed points here. */
struct told {
    struct openapi_value columns[SOURCE_COLUMNS_MAX], filters[SOURCE_FILTERS_MAX + 1];
    char schemas[SOURCE_FILTERS_MAX][SCHEMA_MAX];
};

static void document_tell(const struct source *source, struct told *told, struct openapi_feed *feed)
{
    *feed = (struct openapi_feed){
        .name = source->name,
        .path = source->path,
        .items_key = source->items_key,
        .columns = told->columns,
        .column_count = source->column_count,
        .filters = told->filters,
        .filter_count = source->filter_count,
        .scoped = source->workspace != NULL,
        .open = source->auth == SOURCE_OPEN,
        .roles = source->role_count > 0,
        .boundary = source->xid != NULL,
        .gapless = source->settled != NULL,
    };
    for (size_t i = 0; i < source->column_count; i++)
        told->columns[i] = (struct openapi_value){source->columns[i].name,
                                                  document_column_schema(source, &source->columns[i])};
    for (size_t i = 0; i < source->filter_count; i++) {
        document_filter_schema(&source->filters[i], told->schemas[i]);
        told->filters[i] = (struct openapi_value){source->filters[i].name, told->schemas[i]};
    }
    if (source->flag != NULL)
        told->filters[feed->filter_count++] =
            (struct openapi_value){source->flag, "{\"type\":\"boolean\",\"enum\":[true]}"};
}

enum status document_write(const struct source *const *sources, size_t count, struct buffer *out,
                           struct fault *fault)
{
    struct told *told = calloc(count + 1, sizeof *told);
    struct openapi_feed *feeds = calloc(count + 1, sizeof *feeds);
    enum status status = ST_FATAL;
    if (told != NULL && feeds != NULL) {
        for (size_t i = 0; i < count; i++)
            document_tell(sources[i], &told[i], &feeds[i]);
        status = openapi_write(feeds, count, out, fault);
    } else {
        fault_set(fault, "memory", "no memory for the document");
    }
    free(told);
    free(feeds);
    return status;
}

void document_init(struct document *document)
{
    *document = (struct document){.etag = ""};
    buffer_init(&document->text, DOCUMENT_BYTES_MAX);
}

void document_done(struct document *document)
{
    buffer_done(&document->text);
}

enum status document_make(struct document *document, const struct feeds *feeds, struct fault *fault)
{
    const struct source *sources[FEEDS_MAX];
    size_t count = 0;
    if (document->etag[0] != '\0')
        return ST_OK;
    for (size_t i = 0; i < feeds->count; i++) {
        const struct source *source = feeds->entries[i].source;
        if (source == NULL) {
            fault_set(fault, "unavailable", "The database cannot be reached just now.");
            return ST_REJECT;
        }
        if (source != &source_notifications)
            sources[count++] = source;
    }
    buffer_reset(&document->text);
    enum status status = document_write(sources, count, &document->text, fault);
    if (status == ST_OK) {
        const struct span text = buffer_span(&document->text);
        reply_make_etag(&text, 1, document->etag);
    } else {
        fault_set(fault, "internal", "The document could not be written.");
    }
    return status == ST_OK ? ST_OK : ST_REJECT;
}
