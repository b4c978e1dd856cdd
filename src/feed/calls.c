/* In: which call. Out: its statement sent, its answer as JSON. Always: who is no member is told nothing else;
 * what is not the user's is not found. A crash here loses the answers under way. */
#include "feed/calls.h"

#include "feed/exports.h"
#include "wire/json_out.h"

static enum status calls_refuse(struct fault *fault, const char *code, const char *detail)
{
    fault_set(fault, code, "%s", detail);
    return ST_REJECT;
}

enum status calls_refuse_access(enum page_access access, struct fault *fault)
{
    if (access == PAGE_NO_ROLE)
        return calls_refuse(fault, "role_required", "Your role in this workspace may not read this feed.");
    return calls_refuse(fault, "not_a_member", "You are not a member of this workspace.");
}

/* ---- a page
 * ------------------------------------------------------------------------------------------------
 */

static enum status page_understand(struct asked *asked, const struct parameters_input *input,
                                   struct fault *fault)
{
    enum status status = parameters_read(input, &asked->page, fault);
    asked->small = status == ST_OK && page_is_small(&asked->page.query);
    return status;
}

static enum status page_ask(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return page_send(db, &asked->page.query, tag, fault);
}

static enum status page_write(const struct asked *asked, const struct db_result *result,
                              const struct keys *keys, struct answer *answer, struct fault *fault)
{
    struct parameters_cursors cursors;
    struct page page;
    enum status status = page_open(&asked->page.query, result, &page, fault);
    if (status == ST_OK && page.access != PAGE_GRANTED)
        return calls_refuse_access(page.access, fault);
    if (status == ST_OK)
        status = parameters_cursors(&asked->page, &page, &keys->cursor, &cursors, fault);
    if (status == ST_OK)
        reply_write_page(answer, &asked->page, &page, &cursors);
    else if (strcmp(fault->code, CURSOR_EXPIRED) != 0)
        return calls_refuse(fault, "internal", "The page could not be written.");
    return status;
}

/* ---- one notification
 * --------------------------------------------------------------------------------------
 */

static enum status item_understand(struct asked *asked, const struct parameters_input *input,
                                   struct fault *fault)
{
    asked->item = (struct item_query){
        .workspace_id = input->workspace_id, .user_id = input->user_id, .id = asked->route.id};
    return parameters_none(input, fault);
}

static enum status item_look(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return item_send(db, &asked->item, ITEM_LOOK, tag, fault);
}

static enum status item_read(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return item_send(db, &asked->item, ITEM_READ, tag, fault);
}

static enum status item_unread(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return item_send(db, &asked->item, ITEM_UNREAD, tag, fault);
}

static enum status item_write(const struct asked *asked, const struct db_result *result,
                              const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)asked;
    (void)keys;
    struct page page;
    page_open_item(result, &page);
    if (page.access != PAGE_GRANTED)
        return calls_refuse_access(page.access, fault);
    if (page.count == 0)
        return calls_refuse(fault, "not_found", "You have no such notification in this workspace.");
    row_write(answer->body, answer->form, result, page_row(&page, 0), PAGE_COLUMN_FIRST);
    return ST_OK;
}

/* {"name":figure,"flag":…}: the first half and the second. */
static void calls_write_figure(struct buffer *body, const char *name, int64_t figure)
{
    buffer_add_byte(body, '{');
    json_out_name(body, name);
    json_out_int(body, figure);
}

static void calls_write_flag(struct buffer *body, const char *name, bool set)
{
    buffer_add_byte(body, ',');
    json_out_name(body, name);
    buffer_add_text(body, set ? "true}" : "false}");
}

static enum status count_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    return item_unread_send(db, &asked->item, tag, fault);
}

static enum status count_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)asked;
    (void)keys;
    struct item_unread unread = item_unread_open(result);
    if (!unread.member)
        return calls_refuse_access(PAGE_NO_MEMBER, fault);
    calls_write_figure(answer->body, "unread", unread.count);
    calls_write_flag(answer->body, "capped", unread.capped);
    return ST_OK;
}

/* ---- read up to
 * --------------------------------------------------------------------------------------------
 */

static enum status up_to_understand(struct asked *asked, const struct parameters_input *input,
                                    struct fault *fault)
{
    return parameters_up_to(input, &asked->page, fault);
}

static enum status up_to_send(struct db *db, const struct asked *asked, uint64_t tag, struct fault *fault)
{
    struct page_position up_to = cursors_up_to(&asked->page.from);
    return item_read_up_to_send(db, &asked->page.query, &up_to, tag, fault);
}

static enum status up_to_write(const struct asked *asked, const struct db_result *result,
                               const struct keys *keys, struct answer *answer, struct fault *fault)
{
    (void)asked;
    (void)keys;
    struct item_marked marked = item_marked_open(result);
    if (!marked.member)
        return calls_refuse_access(PAGE_NO_MEMBER, fault);
    calls_write_figure(answer->body, "marked", marked.marked);
    calls_write_flag(answer->body, "more", marked.more);
    return ST_OK;
}

/* ---- the table
 * ---------------------------------------------------------------------------------------------
 */

#define ALLOW_READ   "GET, HEAD"
#define ALLOW_EXPORT "GET, HEAD, DELETE"

static const struct call calls[] = {
    {ROUTE_FEED, HTTP_GET, false, ALLOW_READ, page_understand, page_ask, page_write},
    {ROUTE_ITEM, HTTP_GET, false, ALLOW_READ, item_understand, item_look, item_write},
    {ROUTE_ITEM_READ, HTTP_POST, true, "POST", item_understand, item_read, item_write},
    {ROUTE_ITEM_UNREAD, HTTP_POST, true, "POST", item_understand, item_unread, item_write},
    {ROUTE_UNREAD_COUNT, HTTP_GET, false, ALLOW_READ, item_understand, count_send, count_write},
    {ROUTE_READ_UP_TO, HTTP_POST, true, "POST", up_to_understand, up_to_send, up_to_write},
    {ROUTE_FEED_EXPORTS, HTTP_POST, true, "POST", exports_order, exports_order_send, exports_order_write},
    {ROUTE_EXPORTS, HTTP_GET, true, ALLOW_READ, exports_none, exports_list_send, exports_list_write},
    {ROUTE_EXPORT, HTTP_GET, true, ALLOW_EXPORT, exports_none, exports_look_send, exports_look_write},
    {ROUTE_EXPORT, HTTP_DELETE, true, ALLOW_EXPORT, exports_none, exports_delete_send, exports_delete_write},
    {ROUTE_EXPORT_ROWS, HTTP_GET, true, ALLOW_READ, exports_rows, exports_look_send, exports_rows_write},
    {ROUTE_EXPORT_PAGES, HTTP_GET, true, ALLOW_READ, exports_pages, exports_look_send, exports_pages_write},
    {ROUTE_OPENAPI, HTTP_GET, false, ALLOW_READ, NULL, NULL, NULL},
};

const struct call *calls_at(size_t index)
{
    return index < sizeof calls / sizeof calls[0] ? &calls[index] : NULL;
}

enum status calls_find(const struct route *route, enum http_method method, const struct call **call,
                       struct fault *fault)
{
    const char *allow = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].route != route->kind)
            continue;
        allow = calls[i].allow;
        if (calls[i].method == (method == HTTP_HEAD ? HTTP_GET : method)) {
            *call = &calls[i];
            return ST_OK;
        }
    }
    if (allow == NULL)
        return calls_refuse(fault, "not_found", "There is nothing at this path.");
    fault_set(fault, "method_not_allowed", "This path takes %s.", allow);
    fault_set_field(fault, allow);
    return ST_REJECT;
}
