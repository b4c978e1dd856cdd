/* In: what is asked of an export. Out: its statement, its answer as JSON. Always: what is another's, or gone,
 * is not found; who may no longer read the feed is told so and nothing else. A crash here loses one answer.
 */
#include "feed/exports.h"

#include <stdio.h>
#include <string.h>

#include "feed/export_text.h"
#include "wire/fingerprint.h"
#include "wire/json_out.h"

/* One page of an export: fewer entries rather than an answer too large. */
enum { PAGES_BYTES_MAX = 4 * 1024 * 1024 };

static enum status exports_refuse(struct fault *fault, const char *code, const char *detail)
{
    fault_set(fault, code, "%s", detail);
    return ST_REJECT;
}

static enum status exports_not_found(struct fault *fault)
{
    return exports_refuse(fault, "not_found", "You have no such export here.");
}

/* ---- who may ------------------------------------------------------------------------------------------- */

static bool exports_has_role(const struct source *source, struct span role)
{
    size_t i = 0;
    while (i < source->role_count && !span_is(role, source->roles[i]))
        i++;
    return source->role_count == 0 || i < source->role_count;
}

enum status exports_judge(const struct source *source, const struct export_asker *asker, struct fault *fault)
{
    if (source->auth != SOURCE_MEMBER)
        return ST_OK;
    if (!asker->member)
        return calls_refuse_access(PAGE_NO_MEMBER, fault);
    return exports_has_role(source, asker->role) ? ST_OK : calls_refuse_access(PAGE_NO_ROLE, fault);
}

static enum status exports_find(const struct feeds *feeds, const struct db_result *result, int row,
                                struct export *export, struct fault *fault)
{
    struct export_asker asker;
    export_open(result, row, &asker, export);
    const struct feeds_entry *feed = export->found ? feeds_find_served(feeds, export->feed) : NULL;
    if (feed == NULL)
        return exports_not_found(fault);
    enum status status = exports_judge(feed->source, &asker, fault);
    /* What roles see of the rows was settled when they were read: another role would see others. */
    if (status == ST_OK && feed->source->roles_column != NULL && export->filled_as.at != NULL &&
        !span_same(export->filled_as, asker.role))
        return exports_refuse(fault, "role_required", "The export was made under another role.");
    return status;
}

enum status exports_judge_rows(const struct feeds *feeds, const struct db_result *result,
                               struct export *export, struct fault *fault)
{
    enum status status = exports_find(feeds, result, 0, export, fault);
    if (status != ST_OK || span_is(export->state, "ready"))
        return status;
    if (span_is(export->state, "expired"))
        return exports_refuse(fault, "export_expired", "The export has expired; order a new one.");
    if (span_is(export->state, "failed"))
        return exports_refuse(fault, "export_failed", "The export failed; its error says why.");
    return exports_refuse(fault, "export_not_ready", "The export is not ready yet.");
}

/* ---- what is asked ------------------------------------------------------------------------------------- */

static void exports_begin(struct asked *asked, const struct parameters_input *input)
{
    asked->export.of = (struct export_query){
        .workspace_id = input->workspace_id, .user_id = input->user_id, .id = asked->route.id};
    asked->export.range = (struct export_range){.rows_max = 0};
}

enum status exports_none(struct asked *asked, const struct parameters_input *input, struct fault *fault)
{
    exports_begin(asked, input);
    return parameters_none(input, fault);
}

static enum status exports_after(struct span text, int64_t *after, struct fault *fault)
{
    int64_t number = 0;
    bool fits = text.bytes > 0 && text.bytes <= 18;
    for (size_t i = 0; fits && i < text.bytes; i++) {
        fits = text.at[i] >= '0' && text.at[i] <= '9';
        number = number * 10 + (text.at[i] - '0');
    }
    if (!fits) {
        fault_set(fault, "invalid_parameter", "after takes the ordinal of the last row you have.");
        fault_set_field(fault, "after");
        return ST_REJECT;
    }
    *after = number;
    return ST_OK;
}

enum status exports_rows(struct asked *asked, const struct parameters_input *input, struct fault *fault)
{
    static const char *const names[] = {"after"};
    struct span values[1] = {{NULL, 0}};
    exports_begin(asked, input);
    asked->export.range = (struct export_range){.rows_max = EXPORT_TEXT_ROWS, .bytes_max = EXPORT_TEXT_BYTES};
    enum status status = parameters_named(input, names, 1, values, fault);
    if (status != ST_OK || values[0].at == NULL)
        return status;
    return exports_after(values[0], &asked->export.range.after, fault);
}

/* The rows of a page: behind a place, or the last ones before it. */
static void exports_place(struct exports_walk *walk)
{
    struct export_range *range = &walk->ask.range;
    int64_t at = walk->continues ? walk->cursor.id_bigint : 0;
    *range = (struct export_range){.after = at, .rows_max = walk->limit, .bytes_max = PAGES_BYTES_MAX};
    if (!walk->continues || walk->cursor.direction != CURSOR_NEWER)
        return;
    range->after = at - 1 > walk->limit ? at - 1 - walk->limit : 0;
    range->rows_max = at > 1 ? at - 1 - range->after : 0;
    range->bytes_max = INT64_MAX; /* from the far end: all of them, or the page would have a hole */
}

enum status exports_pages(struct asked *asked, const struct parameters_input *input, struct fault *fault)
{
    static const char *const names[] = {"limit", "cursor"};
    struct exports_walk *walk = &asked->walk;
    struct span values[2] = {{NULL, 0}, {NULL, 0}};
    exports_begin(asked, input);
    enum status status = parameters_named(input, names, 2, values, fault);
    if (status != ST_OK)
        return status;
    walk->limit = parameters_limit(values[0]);
    walk->continues = values[1].bytes > 0;
    walk->now_us = input->now_us;
    walk->ttl_us = input->cursor_ttl_us;
    if (walk->continues) {
        status = cursor_decode(input->keys, values[1], &walk->cursor, fault);
        if (status == ST_OK && (walk->cursor.contract != CURSOR_EXPORT_SNAPSHOT ||
                                walk->cursor.id_type != CURSOR_ID_BIGINT || walk->cursor.id_bigint < 0))
            status = exports_refuse(fault, CURSOR_MISMATCH, "The cursor is not one of this export.");
        fault_set_field(fault, "cursor");
    }
    exports_place(walk);
    return status;
}

/* A value is of its column's JSON type, or 5 would be a category; 64 bits may be a string, as they are shown.
 */
static bool exports_type_fits(const struct source *source, const struct export_filter *given)
{
    for (size_t i = 0; i < source->filter_count; i++) {
        const struct source_filter *filter = &source->filters[i];
        if (span_is(given->name, filter->name))
            return filter->type == SOURCE_BIGINT ||
                   given->text == (filter->type == SOURCE_TEXT || filter->type == SOURCE_UUID);
    }
    return source->flag == NULL || !span_is(given->name, source->flag) || !given->text;
}

enum status exports_filters(const struct feeds_entry *feed, const struct export_body *body,
                            struct page_query *query, struct fault *fault)
{
    struct http_parameter parameters[EXPORT_BODY_FILTERS_MAX];
    struct parameters_input input = {
        .parameters = parameters, .count = body->count, .statements = feed->statements};
    for (size_t i = 0; i < body->count; i++) {
        if (!exports_type_fits(feed->source, &body->filters[i]))
            return exports_refuse(fault, "invalid_body", "A filter's value is not of its type.");
        parameters[i] = (struct http_parameter){body->filters[i].name, body->filters[i].value};
    }
    enum status status = parameters_export(&input, query, fault);
    if (status != ST_REJECT)
        return status;
    char detail[FAULT_TEXT_MAX];
    snprintf(detail, sizeof detail, "%s", fault->text);
    return exports_refuse(fault, "invalid_body", detail);
}

static void exports_write_filter(struct buffer *out, const struct source_filter *filter,
                                 const struct source_value *value)
{
    char room[SOURCE_VALUE_ROOM];
    json_out_name(out, filter->name);
    if (filter->type == SOURCE_INTEGER || filter->type == SOURCE_BOOLEAN)
        buffer_add_span(out, source_value_text(filter, value, room));
    else
        json_out_string(out, source_value_text(filter, value, room));
}

enum status exports_normalise(const struct page_query *query, struct exports_ask *ask, struct fault *fault)
{
    const struct source *source = page_source(query->statements);
    struct buffer out;
    buffer_init(&out, sizeof ask->filters);
    buffer_add_byte(&out, '{');
    for (size_t i = 0; i < source->filter_count; i++) {
        if (!query->filters[i].given)
            continue;
        if (out.bytes > 1)
            buffer_add_byte(&out, ',');
        exports_write_filter(&out, &source->filters[i], &query->filters[i]);
    }
    if (query->flag) {
        if (out.bytes > 1)
            buffer_add_byte(&out, ',');
        json_out_name(&out, source->flag);
        buffer_add_text(&out, "true");
    }
    buffer_add_byte(&out, '}');
    bool fits = !out.failed;
    if (fits) {
        ask->filters_bytes = out.bytes;
        memcpy(ask->filters, out.at, out.bytes);
        const struct span parts[] = {span_of(export_format_name(ask->format)), buffer_span(&out)};
        crypto_sha256(parts, sizeof parts / sizeof parts[0], ask->hash);
    }
    buffer_done(&out);
    return fits ? ST_OK : exports_refuse(fault, "invalid_body", "The filters are too long.");
}

enum status exports_order(struct asked *asked, const struct parameters_input *input, struct fault *fault)
{
    struct exports_ask *ask = &asked->export;
    struct export_body body;
    struct page_query query;
    if (asked->feed->source->auth == SOURCE_OPEN)
        return exports_refuse(fault, "not_found", "This feed is nobody's, and nobody's export can be made.");
    exports_begin(asked, input);
    ask->key = http_request_header(asked->request, HTTP_IDEMPOTENCY_KEY); /* judged with the head */
    enum status status = parameters_none(input, fault);
    if (status == ST_OK)
        status = export_body_parse(input->body, &body, fault);
    if (status == ST_OK)
        status = exports_filters(asked->feed, &body, &query, fault);
    if (status != ST_OK)
        return status;
    ask->format = body.format;
    return exports_normalise(&query, ask, fault);
}

/* ---- what is sent -------------------------------------------------------------------------------------- */

struct export_order exports_make_order(const struct export_settings *settings, const struct source *source,
                                       const struct exports_ask *ask)
{
    return (struct export_order){
        .of = ask->of,
        .source = source,
        .filters = {ask->filters, ask->filters_bytes},
        .format = span_of(export_format_name(ask->format)),
        .key = ask->key,
        .hash = {(const char *)ask->hash, sizeof ask->hash},
        .open_max = (int64_t)settings->open_max,
        .stored_max = (int64_t)settings->stored_max,
        .stored_bytes_max = (int64_t)settings->stored_bytes_max,
    };
}

enum status exports_order_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    struct export_order order =
        exports_make_order(&asked->settings->exports, asked->feed->source, &asked->export);
    return export_create_send(db, &order, tag, fault);
}

enum status exports_list_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return export_list_send(db, &asked->export.of, tag, fault);
}

enum status exports_look_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return export_rows_send(db, &asked->export.of, &asked->export.range, tag, fault);
}

enum status exports_delete_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    const char *names[FEEDS_MAX];
    struct export_feeds open_feeds = {.names = names};
    for (size_t i = 0; i < asked->feeds->count; i++) {
        const struct source *source = asked->feeds->entries[i].source;
        if (source != NULL && source->auth != SOURCE_MEMBER)
            names[open_feeds.count++] = source->name;
    }
    return export_delete_send(db, &asked->export.of, &open_feeds, tag, fault);
}

/* ---- what is answered ---------------------------------------------------------------------------------- */

static void exports_write_time(struct buffer *out, const char *name, bool has, int64_t us)
{
    buffer_add_byte(out, ',');
    json_out_name(out, name);
    if (has)
        json_out_instant(out, us);
    else
        buffer_add_text(out, "null");
}

static void exports_write_text(struct buffer *out, const char *name, struct span text)
{
    buffer_add_byte(out, ',');
    json_out_name(out, name);
    json_out_string_or_null(out, text);
}

static void exports_write(struct buffer *out, const struct export *export)
{
    buffer_add_byte(out, '{');
    json_out_name(out, "id");
    json_out_uuid(out, export->id);
    exports_write_text(out, "feed", export->feed);
    exports_write_text(out, "format", export->format);
    buffer_add_byte(out, ',');
    json_out_name(out, "filters");
    buffer_add_span(out, export->filters);
    exports_write_text(out, "state", export->state);
    exports_write_text(out, "error", export->error);
    buffer_add_byte(out, ',');
    json_out_name(out, "rows");
    json_out_int(out, export->rows);
    buffer_add_byte(out, ',');
    json_out_name(out, "bytes");
    json_out_int(out, export->bytes);
    exports_write_text(out, "snapshot", export->snapshot);
    exports_write_time(out, "snapshot_at", export->has_snapshot_at, export->snapshot_at_us);
    exports_write_time(out, "created_at", true, export->created_at_us);
    exports_write_time(out, "finished_at", export->has_finished_at, export->finished_at_us);
    exports_write_time(out, "expires_at", export->has_expires_at, export->expires_at_us);
    buffer_add_byte(out, '}');
}

static bool exports_is_open(const struct export *export)
{
    return span_is(export->state, "queued") || span_is(export->state, "running");
}

static enum status exports_full(const struct export_created *created, struct fault *fault)
{
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%lld",
             created->too_many ? (long long)EXPORTS_OPEN_RETRY_S : (long long)created->room_ms / 1000 + 1);
    fault_set(fault, "too_many_exports", "%s",
              created->too_many ? "Too many of your exports are not finished yet."
                                : "You have too many exports; delete one, or wait until one expires.");
    fault_set_field(fault, seconds);
    return ST_REJECT;
}

enum status exports_order_write(const struct asked *asked, const struct db_result *result,
                                const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)keys;
    struct export_asker asker;
    struct export export;
    char id[UUID_TEXT_BYTES + 1];
    export_open(result, 0, &asker, &export);
    enum status status = exports_judge(asked->feed->source, &asker, fault);
    if (status != ST_OK)
        return status;
    struct export_created created = export_created_open(result);
    if (!export.found)
        return exports_full(&created, fault);
    if (!created.fresh && !created.same)
        return exports_refuse(fault, "idempotency_mismatch",
                              "This Idempotency-Key was used for another export.");
    exports_write(answer->body, &export);
    answer->status = exports_is_open(&export) ? 202 : 200;
    answer->retry_after_s = exports_is_open(&export) ? EXPORTS_RETRY_S : 0;
    uuid_format(export.id, id);
    snprintf(answer->location, sizeof answer->location, "../../exports/%s", id); /* from …/feeds/F/exports */
    return ST_OK;
}

enum status exports_list_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)keys;
    struct buffer *out = answer->body;
    struct export_asker asker = {.member = false};
    struct export export;
    size_t shown = 0;
    buffer_add_text(out, "{\"items\":[");
    for (int row = 0; row < db_result_rows(result); row++) {
        export_open(result, row, &asker, &export);
        const struct feeds_entry *feed = export.found ? feeds_find_served(asked->feeds, export.feed) : NULL;
        if (feed == NULL || exports_judge(feed->source, &asker, fault) != ST_OK)
            continue;
        if (shown++ > 0)
            buffer_add_byte(out, ',');
        exports_write(out, &export);
    }
    buffer_add_text(out, "]}");
    if (shown == 0 && asked->export.of.workspace_id.bytes > 0 && !asker.member)
        return calls_refuse_access(PAGE_NO_MEMBER, fault);
    return ST_OK;
}

/* Who is no member of the workspace is told that, and not what is there. */
static enum status exports_missing(const struct asked *asked, bool member, struct fault *fault)
{
    if (asked->export.of.workspace_id.bytes > 0 && !member)
        return calls_refuse_access(PAGE_NO_MEMBER, fault);
    return exports_not_found(fault);
}

enum status exports_look_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)keys;
    struct export_asker asker;
    struct export export;
    export_open(result, 0, &asker, &export);
    if (!export.found)
        return exports_missing(asked, asker.member, fault);
    enum status status = exports_find(asked->feeds, result, 0, &export, fault);
    if (status != ST_OK)
        return status;
    exports_write(answer->body, &export);
    answer->retry_after_s = exports_is_open(&export) ? EXPORTS_RETRY_S : 0;
    return ST_OK;
}

enum status exports_delete_write(const struct asked *asked, const struct db_result *result,
                                 const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)keys;
    answer->status = 204;
    if (export_is_deleted(result))
        return ST_OK;
    return exports_missing(asked, db_result_bool(result, 0, 0), fault);
}

/* The export whose rows are asked for, when they may be read. */
static enum status exports_readable(const struct asked *asked, const struct db_result *result,
                                    struct export *export, struct fault *fault)
{
    struct export_asker asker;
    export_open(result, 0, &asker, export);
    if (!export->found)
        return exports_missing(asked, asker.member, fault);
    enum status status = exports_judge_rows(asked->feeds, result, export, fault);
    if (status == ST_OK && asked->export.range.after > export->rows) {
        fault_set(fault, "invalid_parameter", "The export has fewer rows than that.");
        fault_set_field(fault, "after");
        return ST_REJECT;
    }
    return status;
}

enum status exports_rows_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)keys;
    (void)answer;
    struct export export;
    return exports_readable(asked, result, &export, fault);
}

/* ---- pages of an export -------------------------------------------------------------------------------- */

static uint64_t exports_fingerprint(const struct export_query *of, const struct export *export)
{
    char id[UUID_TEXT_BYTES + 1];
    uuid_format(export->id, id);
    struct fingerprint_query terms = {
        .feed = export->feed,
        .workspace = of->workspace_id,
        .recipient = of->user_id,
        .sort = span_of("ordinal"),
        .contract = span_of(cursor_contract_name(CURSOR_EXPORT_SNAPSHOT)),
        .export_id = span_of(id),
    };
    return fingerprint_of(&terms);
}

/* What a page of an export is made of. */
struct exports_page {
    const struct exports_walk *walk;
    const struct export *export;
    const struct keys *keys;
    uint64_t fingerprint;
    int64_t first, last; /* ordinals shown; nothing: first is last + 1 */
};

/* "" where there is nothing that way: nothing will ever come. */
static enum status exports_cursor(const struct exports_page *page, enum cursor_direction direction,
                                  char text[CURSOR_TEXT_MAX + 1], struct fault *fault)
{
    struct cursor cursor = {
        .direction = direction,
        .contract = CURSOR_EXPORT_SNAPSHOT,
        .id_type = CURSOR_ID_BIGINT,
        .id_bigint = direction == CURSOR_OLDER ? page->last : page->first,
        .fingerprint = page->fingerprint,
        .issued_at_us = page->walk->now_us,
    };
    text[0] = '\0';
    if (direction == CURSOR_OLDER ? page->last >= page->export->rows : page->first <= 1)
        return ST_OK;
    if (page->export->feed.bytes >= sizeof cursor.feed)
        return exports_not_found(fault);
    memcpy(cursor.feed, page->export->feed.at, page->export->feed.bytes);
    return cursor_encode(&page->keys->cursor, &cursor, text, fault);
}

static enum status exports_check_cursor(const struct asked *asked, struct exports_page *page,
                                        struct fault *fault)
{
    char feed[CURSOR_FEED_MAX + 1];
    const struct exports_walk *walk = page->walk;
    page->fingerprint = exports_fingerprint(&asked->export.of, page->export);
    if (!walk->continues)
        return ST_OK;
    snprintf(feed, sizeof feed, "%.*s", (int)page->export->feed.bytes, page->export->feed.at);
    struct cursor_expected expected = {.feed = feed,
                                       .fingerprint = page->fingerprint,
                                       .cluster = walk->cursor.cluster,
                                       .now_us = walk->now_us,
                                       .ttl_us = walk->ttl_us};
    enum status status = cursor_check(&walk->cursor, &expected, fault);
    fault_set_field(fault, "cursor");
    return status;
}

/* The rows of the result, which must follow one another. */
static enum status exports_write_rows(struct exports_page *page, const struct db_result *result,
                                      struct buffer *out, struct fault *fault)
{
    int count = export_row_count(result);
    page->first = page->walk->ask.range.after + 1;
    page->last = page->first - 1 + count;
    for (int i = 0; i < count; i++) {
        int64_t ordinal = 0;
        struct span row = export_row(result, i, &ordinal);
        if (ordinal != page->first + i)
            return exports_refuse(fault, "internal", "The export has a hole.");
        if (i > 0)
            buffer_add_byte(out, ',');
        buffer_add_span(out, row);
    }
    return ST_OK;
}

static void exports_link(struct buffer *link, int limit, const char *cursor, const char *rel)
{
    if (cursor[0] != '\0')
        buffer_printf(link, "%s<?limit=%d&cursor=%s>; rel=\"%s\"", link->bytes > 0 ? ", " : "", limit, cursor,
                      rel);
}

static void exports_page_end(const struct exports_page *page, const char *next, const char *prev,
                             struct answer *answer)
{
    struct buffer *out = answer->body;
    buffer_add_text(out, "],");
    reply_write_walk(out, next, prev, next[0] != '\0', CURSOR_EXPORT_SNAPSHOT);
    buffer_add_byte(out, '}');
    exports_link(answer->link, page->walk->limit, next, "next");
    exports_link(answer->link, page->walk->limit, prev, "prev");
}

enum status exports_pages_write(const struct asked *asked, const struct db_result *result,
                                const struct keys *keys, struct answer *answer, struct fault *fault)
{
    struct export export;
    char next[CURSOR_TEXT_MAX + 1], prev[CURSOR_TEXT_MAX + 1];
    struct exports_page page = {.walk = &asked->walk, .export = &export, .keys = keys};
    enum status status = exports_readable(asked, result, &export, fault);
    if (status == ST_OK)
        status = exports_check_cursor(asked, &page, fault);
    if (status != ST_OK)
        return status;
    bool newer = page.walk->continues && page.walk->cursor.direction == CURSOR_NEWER;
    buffer_add_byte(answer->body, '{');
    json_out_name(answer->body, feeds_find_served(asked->feeds, export.feed)->source->items_key);
    buffer_add_byte(answer->body, '[');
    status = exports_write_rows(&page, result, answer->body, fault);
    if (status == ST_OK)
        status = exports_cursor(&page, newer ? CURSOR_NEWER : CURSOR_OLDER, next, fault);
    if (status == ST_OK)
        status = exports_cursor(&page, newer ? CURSOR_OLDER : CURSOR_NEWER, prev, fault);
    if (status == ST_OK)
        exports_page_end(&page, next, prev, answer);
    return status;
}
