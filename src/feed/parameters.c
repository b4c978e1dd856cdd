/* In: name and value pairs from a client. Out: one query for the store, or the code and the sentence that
 * says what is wrong. Always: an unknown or repeated name is an error, a bad cursor is never page one, and
 * what reaches the database is text it takes. A crash here loses one answer. */
#include "feed/parameters.h"

#include <stdio.h>

#include "base/utf8.h"
#include "wire/fingerprint.h"
#include "wire/up_to.h"

/* The places of values[]: these, the source's filters in order, its flag. */
enum {
    PARAMETER_LIMIT,
    PARAMETER_CURSOR,
    PARAMETER_DIRECTION,
    PARAMETER_CONTRACT,
    PARAMETER_FILTERS,
    PARAMETERS_MAX = PARAMETER_FILTERS + SOURCE_FILTERS_MAX + 1
};

static const char *const parameter_names[PARAMETER_FILTERS] = {"limit", "cursor", "direction", "contract"};

/* NULL: there are no more. */
static const char *parameters_name(const struct source *source, size_t which)
{
    if (which < PARAMETER_FILTERS)
        return parameter_names[which];
    which -= PARAMETER_FILTERS;
    if (which < source->filter_count)
        return source->filters[which].name;
    return which == source->filter_count ? source->flag : NULL;
}

static enum status parameters_refuse(struct fault *fault, const char *code, const char *name,
                                     const char *detail)
{
    fault_set(fault, code, "%s", detail);
    fault_set_field(fault, name);
    return ST_REJECT;
}

/* A name from outside as the fault's field; it is cut where the field ends. */
static enum status parameters_refuse_name(struct fault *fault, const char *code, struct span name,
                                          const char *detail)
{
    char field[FAULT_FIELD_MAX];
    snprintf(field, sizeof field, "%.*s", (int)(name.bytes < sizeof field ? name.bytes : sizeof field),
             name.bytes == 0 ? "" : name.at);
    fault_set(fault, code, "%s", detail);
    fault_set_field(fault, field);
    return ST_REJECT;
}

/* Sorts the pairs into values[]; at stays NULL where none was given. */
static enum status parameters_sort(const struct parameters_input *input, struct span *values,
                                   struct fault *fault)
{
    const struct source *source = page_source(input->statements);
    for (size_t i = 0; i < input->count; i++) {
        const struct http_parameter *given = &input->parameters[i];
        size_t which = 0;
        const char *name = parameters_name(source, which);
        while (name != NULL && !span_is(given->name, name))
            name = parameters_name(source, ++which);
        if (name == NULL)
            return parameters_refuse_name(fault, "unknown_parameter", given->name,
                                          "This feed has no such parameter.");
        if (values[which].at != NULL)
            return parameters_refuse_name(fault, "repeated_parameter", given->name,
                                          "The parameter was given more than once.");
        values[which] = given->value.at == NULL ? span_of("") : given->value;
    }
    return ST_OK;
}

enum status parameters_none(const struct parameters_input *input, struct fault *fault)
{
    return input->count == 0 ? ST_OK
                             : parameters_refuse_name(fault, "unknown_parameter", input->parameters[0].name,
                                                      "This call takes no parameters.");
}

enum status parameters_named(const struct parameters_input *input, const char *const *names, size_t count,
                             struct span *values, struct fault *fault)
{
    for (size_t i = 0; i < input->count; i++) {
        const struct http_parameter *given = &input->parameters[i];
        size_t which = 0;
        while (which < count && !span_is(given->name, names[which]))
            which++;
        if (which == count)
            return parameters_refuse_name(fault, "unknown_parameter", given->name,
                                          "This call has no such parameter.");
        if (values[which].at != NULL)
            return parameters_refuse_name(fault, "repeated_parameter", given->name,
                                          "The parameter was given more than once.");
        values[which] = given->value.at == NULL ? span_of("") : given->value;
    }
    return ST_OK;
}

int parameters_limit(struct span text)
{
    int limit = 0;
    if (text.bytes == 0)
        return PAGE_LIMIT_DEFAULT;
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return PAGE_LIMIT_DEFAULT;
        if (limit <= PAGE_LIMIT_MAX)
            limit = limit * 10 + (text.at[i] - '0');
    }
    if (limit < 1)
        return PAGE_LIMIT_DEFAULT;
    return limit < PAGE_LIMIT_MAX ? limit : PAGE_LIMIT_MAX;
}

static enum status parameters_refuse_filter(const struct source_filter *filter, struct fault *fault)
{
    char detail[FAULT_TEXT_MAX];
    const char *takes = "true or false";
    if (filter->type == SOURCE_INTEGER || filter->type == SOURCE_BIGINT)
        takes = "a whole number";
    else if (filter->type == SOURCE_UUID)
        takes = "a UUID";
    if (filter->type == SOURCE_TEXT)
        snprintf(detail, sizeof detail, "%s takes 1 to %zu bytes of UTF-8 text.", filter->name,
                 filter->bytes_max);
    else
        snprintf(detail, sizeof detail, "%s takes %s.", filter->name, takes);
    return parameters_refuse(fault, "invalid_parameter", filter->name, detail);
}

static enum status parameters_filters(const struct span *values, struct page_query *query,
                                      struct fault *fault)
{
    const struct source *source = page_source(query->statements);
    for (size_t i = 0; i < source->filter_count; i++) {
        struct span value = values[PARAMETER_FILTERS + i];
        if (value.at != NULL && !source_value_parse(&source->filters[i], value, &query->filters[i]))
            return parameters_refuse_filter(&source->filters[i], fault);
    }
    struct span flag = values[PARAMETER_FILTERS + source->filter_count];
    query->flag = flag.at != NULL;
    if (query->flag && !span_is(flag, "true")) {
        char detail[FAULT_TEXT_MAX];
        snprintf(detail, sizeof detail, "%s takes only the value true; leave it out to see all.",
                 source->flag);
        return parameters_refuse(fault, "invalid_parameter", source->flag, detail);
    }
    return ST_OK;
}

enum status parameters_export(const struct parameters_input *input, struct page_query *query,
                              struct fault *fault)
{
    struct span values[PARAMETERS_MAX] = {{NULL, 0}};
    struct page_query read = {.statements = input->statements};
    enum status status = parameters_sort(input, values, fault);
    for (int i = PARAMETER_LIMIT; status == ST_OK && i < PARAMETER_FILTERS; i++)
        if (values[i].at != NULL)
            return parameters_refuse(fault, "unknown_parameter", parameter_names[i],
                                     "The feed has no such filter.");
    if (status == ST_OK)
        status = parameters_filters(values, &read, fault);
    if (status == ST_OK)
        *query = read;
    return status;
}

/* What direction and contract say, each with whether it was given; the cursor decides later whether they
 * agree with it. */
static enum status parameters_traversal(const struct span *values, struct cursor_expected *expected,
                                        struct fault *fault)
{
    struct span direction = values[PARAMETER_DIRECTION], contract = values[PARAMETER_CONTRACT];
    expected->direction_given = direction.at != NULL;
    expected->direction = CURSOR_OLDER;
    if (direction.at != NULL && span_is(direction, "newer"))
        expected->direction = CURSOR_NEWER;
    else if (direction.at != NULL && !span_is(direction, "older"))
        return parameters_refuse(fault, "invalid_parameter", parameter_names[PARAMETER_DIRECTION],
                                 "direction takes older or newer.");
    expected->contract_given = contract.at != NULL;
    expected->contract = CURSOR_LIVE;
    if (contract.at != NULL && span_is(contract, "boundary"))
        expected->contract = CURSOR_BOUNDARY;
    else if (contract.at != NULL && !span_is(contract, "live"))
        return parameters_refuse(fault, "invalid_parameter", parameter_names[PARAMETER_CONTRACT],
                                 "contract takes live or boundary.");
    return ST_OK;
}

static enum status parameters_cursor_fault(struct fault *fault, enum status status)
{
    fault_set_field(fault, parameter_names[PARAMETER_CURSOR]);
    return status;
}

static uint64_t parameters_fingerprint(const struct page_query *query, enum cursor_contract contract)
{
    const struct source *source = page_source(query->statements);
    struct fingerprint_filter filters[SOURCE_FILTERS_MAX + 1];
    char rooms[SOURCE_FILTERS_MAX][SOURCE_VALUE_ROOM];
    size_t count = 0;
    for (size_t i = 0; i < source->filter_count; i++) {
        if (query->filters[i].given)
            filters[count++] = (struct fingerprint_filter){
                span_of(source->filters[i].name),
                source_value_text(&source->filters[i], &query->filters[i], rooms[i])};
    }
    if (query->flag)
        filters[count++] = (struct fingerprint_filter){span_of(source->flag), span_of("true")};
    struct fingerprint_query terms = {
        .feed = span_of(source->name),
        .sort = span_of("created_at,id"),
        .contract = span_of(cursor_contract_name(contract)),
        .filters = filters,
        .filter_count = count,
    };
    if (source->workspace != NULL)
        terms.workspace = query->workspace_id;
    if (source->recipient != NULL)
        terms.recipient = query->user_id;
    return fingerprint_of(&terms);
}

/* The cursor that goes on with what `expected` says; its cluster is compared where the database is asked. */
static enum status parameters_cursor(const struct parameters_input *input, struct span text,
                                     struct cursor_expected *expected, struct ask *ask, struct fault *fault)
{
    struct cursor cursor;
    enum status status = cursor_decode(input->keys, text, &cursor, fault);
    if (status != ST_OK)
        return parameters_cursor_fault(fault, status);
    expected->fingerprint = parameters_fingerprint(&ask->query, cursor.contract);
    expected->cluster = cursor.cluster;
    status = cursor_check(&cursor, expected, fault);
    if (status == ST_OK)
        status = cursors_read(&cursor, page_source(input->statements)->id_type, &ask->from, fault);
    return status == ST_OK ? ST_OK : parameters_cursor_fault(fault, status);
}

static enum status parameters_walk(const struct parameters_input *input, const struct span *values,
                                   struct cursor_expected *expected, struct ask *ask, struct fault *fault)
{
    struct page_query *query = &ask->query;
    query->limit = parameters_limit(values[PARAMETER_LIMIT]);
    if (values[PARAMETER_CURSOR].bytes == 0) {
        if (expected->direction == CURSOR_NEWER)
            return parameters_refuse(fault, "invalid_parameter", parameter_names[PARAMETER_DIRECTION],
                                     "direction=newer goes on from a cursor: read the head of the feed and "
                                     "go on from its prev_cursor.");
        ask->from.contract = expected->contract;
        ask->from.fingerprint = parameters_fingerprint(query, expected->contract);
    } else {
        enum status status = parameters_cursor(input, values[PARAMETER_CURSOR], expected, ask, fault);
        if (status != ST_OK)
            return status;
        query->continues = true;
        query->newer = ask->from.direction == CURSOR_NEWER;
        query->after = ask->from.at;
        query->snapshot = ask->from.snapshot;
    }
    query->boundary = ask->from.contract == CURSOR_BOUNDARY;
    if (query->boundary && page_source(query->statements)->xid == NULL)
        return parameters_refuse(fault, "contract_not_offered", parameter_names[PARAMETER_CONTRACT],
                                 "This feed is read under the contract live alone.");
    return ST_OK;
}

/* What is known before a parameter is looked at. */
static void parameters_begin(const struct parameters_input *input, struct ask *ask,
                             struct cursor_expected *expected)
{
    *ask = (struct ask){.query = {.statements = input->statements,
                                  .workspace_id = input->workspace_id,
                                  .user_id = input->user_id,
                                  .scan_max = input->scan_max},
                        .now_us = input->now_us};
    *expected = (struct cursor_expected){
        .feed = page_source(input->statements)->name,
        .now_us = input->now_us,
        .ttl_us = input->cursor_ttl_us,
    };
}

enum status parameters_read(const struct parameters_input *input, struct ask *ask, struct fault *fault)
{
    struct span values[PARAMETERS_MAX] = {{NULL, 0}};
    struct cursor_expected expected;
    struct ask read;
    parameters_begin(input, &read, &expected);
    enum status status = parameters_sort(input, values, fault);
    if (status == ST_OK)
        status = parameters_filters(values, &read.query, fault);
    if (status == ST_OK)
        status = parameters_traversal(values, &expected, fault);
    if (status == ST_OK)
        status = parameters_walk(input, values, &expected, &read, fault);
    if (status == ST_OK)
        *ask = read;
    return status;
}

enum status parameters_up_to(const struct parameters_input *input, struct ask *ask, struct fault *fault)
{
    struct span values[PARAMETERS_MAX] = {{NULL, 0}};
    struct cursor_expected expected;
    struct ask read;
    char cursor[CURSOR_TEXT_MAX + 1];
    parameters_begin(input, &read, &expected);
    enum status status = parameters_sort(input, values, fault);
    for (int i = PARAMETER_LIMIT; status == ST_OK && i < PARAMETER_FILTERS; i++)
        if (values[i].at != NULL)
            return parameters_refuse(fault, "unknown_parameter", parameter_names[i],
                                     "This call takes the feed's filters only.");
    if (status == ST_OK)
        status = parameters_filters(values, &read.query, fault);
    if (status == ST_OK)
        status = up_to_parse(input->body, cursor, fault);
    if (status == ST_OK)
        status = parameters_cursor(input, span_of(cursor), &expected, &read, fault);
    if (status == ST_OK)
        *ask = read;
    return status;
}

/* The newest that the client was shown goes on with it as long as the newer walk is below. */
static void parameters_carry(const struct ask *ask, struct cursors_place *place)
{
    if (ask->query.continues && ask->from.has_newest &&
        page_position_compare(&ask->from.newest, &place->at) > 0) {
        place->has_newest = true;
        place->newest = ask->from.newest;
    }
}

enum status parameters_cursors(const struct ask *ask, const struct page *page, const struct cursor_keys *keys,
                               struct parameters_cursors *cursors, struct fault *fault)
{
    const struct page_query *query = &ask->query;
    const char *feed = page_source(query->statements)->name;
    struct cursors_place next = {
        .direction = query->continues ? ask->from.direction : CURSOR_OLDER,
        .contract = ask->from.contract,
        .at = page->next,
        .cluster = page->cluster,
        .snapshot = page->snapshot,
        .fingerprint = ask->from.fingerprint,
        .issued_at_us = ask->now_us,
    };
    if (query->boundary && query->continues && page->cluster != ask->from.cluster) {
        fault_set(fault, CURSOR_EXPIRED, "The cursor is of a database that is no longer in use.");
        return ST_REJECT;
    }
    struct cursors_place prev = next;
    prev.direction = next.direction == CURSOR_OLDER ? CURSOR_NEWER : CURSOR_OLDER;
    prev.at = page->prev;
    if (prev.direction == CURSOR_NEWER && page->has_newest &&
        page_position_compare(&page->newest, &page->prev) > 0) {
        prev.has_newest = true;
        prev.newest = page->newest;
    }
    if (next.direction == CURSOR_NEWER)
        parameters_carry(ask, &next);
    cursors->next[0] = '\0';
    enum status status = ST_OK;
    if (page->has_next)
        status = cursors_write(feed, &next, keys, cursors->next, fault);
    return status == ST_OK ? cursors_write(feed, &prev, keys, cursors->prev, fault) : status;
}
