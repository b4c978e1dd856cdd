/* In: the repository's document and the feeds a reader serves. Out: its own document. Always: a declared feed
 * is described by the built-in one's page with what differs put in its place, so the two cannot say different
 * things of what they share. A crash here is a crash of a reader that was asked what it offers. */
#include "wire/openapi.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define MODEL_PATH  "/v1/workspaces/{workspace}/feeds/notifications"
#define MODEL_ORDER MODEL_PATH "/exports"

enum { NAME_MAX = 128, PATH_MAX = 256 };

static json_t *openapi_ref(const char *kind, const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

static json_t *openapi_at(json_t *root, const char *const *names)
{
    for (; *names != NULL; names++)
        root = json_object_get(root, *names);
    return root;
}

/* Drops what describes a declared feed. */
static void openapi_drop_examples(json_t *object)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, name, value)
    {
        if (json_object_get(value, "x-belfry-feed") != NULL)
            (void)json_object_del(object, name);
    }
}

/* The filters again, and what else a link to the feed itself sets. */
static json_t *openapi_link(const struct openapi_feed *feed, const char *operation, const char *cursor)
{
    json_t *parameters = json_object();
    if (feed->scoped)
        json_object_set_new(parameters, "workspace", json_string("$request.path.workspace"));
    json_object_set_new(parameters, "cursor", json_sprintf("$response.body#/%s", cursor));
    for (size_t i = 0; i < feed->filter_count; i++)
        json_object_set_new(parameters, feed->filters[i].name,
                            json_sprintf("$request.query.%s", feed->filters[i].name));
    return json_pack("{s:s, s:o, s:s}", "operationId", operation, "parameters", parameters, "description",
                     strcmp(cursor, "next_cursor") == 0 ? "Goes on the same way." : "Turns round.");
}

static json_t *openapi_parameters(const struct openapi_feed *feed)
{
    json_t *parameters =
        json_pack("[o, o, o, o]", openapi_ref("parameters", "limit"), openapi_ref("parameters", "cursor"),
                  openapi_ref("parameters", "direction"),
                  openapi_ref("parameters", feed->boundary ? "contract" : "contract_live"));
    for (size_t i = 0; i < feed->filter_count; i++)
        json_array_append_new(parameters,
                              json_pack("{s:s, s:s, s:o}", "name", feed->filters[i].name, "in", "query",
                                        "schema", json_loads(feed->filters[i].schema, 0, NULL)));
    json_array_append_new(parameters, openapi_ref("parameters", "if_none_match"));
    return parameters;
}

static json_t *openapi_responses(const struct openapi_feed *feed, const json_t *model, const char *operation)
{
    static const char *const schema_at[] = {"200", "content", "application/json", NULL};
    char schema[NAME_MAX];
    json_t *responses = json_deep_copy(json_object_get(model, "responses"));
    snprintf(schema, sizeof schema, "%s_page", feed->name);
    json_object_set_new(openapi_at(responses, schema_at), "schema", openapi_ref("schemas", schema));
    json_object_set_new(json_object_get(responses, "200"), "links",
                        json_pack("{s:o, s:o}", "next", openapi_link(feed, operation, "next_cursor"), "prev",
                                  openapi_link(feed, operation, "prev_cursor")));
    if (!feed->boundary)
        json_object_set_new(responses, "400", openapi_ref("responses", "BadPageLiveOnly"));
    if (feed->roles)
        json_object_set_new(responses, "403", openapi_ref("responses", "Forbidden"));
    if (feed->open)
        (void)json_object_del(responses, "401");
    if (!feed->scoped)
        (void)json_object_del(responses, "403");
    return responses;
}

/* One path of the feed; own: the one it has beside the usual. */
static json_t *openapi_path(const struct openapi_feed *feed, json_t *model, bool own)
{
    char operation[NAME_MAX];
    snprintf(operation, sizeof operation, "%s_%s", own ? "listPath" : "list", feed->name);
    json_t *get = json_pack("{s:s, s:[s], s:o, s:o, s:o, s:o}", "operationId", operation, "tags", "feeds",
                            "summary", json_sprintf("A page of the feed %s, newest first", feed->name),
                            "description", json_incref(json_object_get(model, "description")), "parameters",
                            openapi_parameters(feed), "responses", openapi_responses(feed, model, operation));
    if (feed->open)
        json_object_set_new(get, "security", json_array());
    json_t *path = json_pack("{s:s}", "x-belfry-feed", feed->name);
    if (feed->scoped)
        json_object_set_new(path, "parameters", json_pack("[o]", openapi_ref("parameters", "workspace")));
    json_object_set_new(path, "get", get);
    return path;
}

/* The links of an order to the calls about exports; outside of workspaces those are called …ByUser. */
static void openapi_leave_workspace(json_t *links)
{
    const char *name;
    json_t *link;
    json_object_foreach(links, name, link)
    {
        const char *operation = json_string_value(json_object_get(link, "operationId"));
        json_object_set_new(link, "operationId", json_sprintf("%sByUser", operation));
        (void)json_object_del(json_object_get(link, "parameters"), "workspace");
    }
}

/* The built-in feed's order with the feed's own filters. */
static json_t *openapi_order(const struct openapi_feed *feed, json_t *model)
{
    static const char *const schema_at[] = {"requestBody", "content", "application/json", NULL};
    static const char *const statuses[] = {"200", "202"};
    char schema[NAME_MAX];
    json_t *post = json_deep_copy(model), *responses = json_object_get(post, "responses");
    snprintf(schema, sizeof schema, "%s_order", feed->name);
    json_object_set_new(post, "operationId", json_sprintf("export_%s", feed->name));
    json_object_set_new(post, "summary", json_sprintf("Orders an export of the feed %s", feed->name));
    json_object_set_new(openapi_at(post, schema_at), "schema", openapi_ref("schemas", schema));
    if (feed->roles)
        json_object_set_new(responses, "403", openapi_ref("responses", "Forbidden"));
    if (!feed->scoped) {
        (void)json_object_del(responses, "403");
        for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
            openapi_leave_workspace(json_object_get(json_object_get(responses, statuses[i]), "links"));
    }
    json_t *path = json_pack("{s:s}", "x-belfry-feed", feed->name);
    if (feed->scoped)
        json_object_set_new(path, "parameters", json_pack("[o]", openapi_ref("parameters", "workspace")));
    json_object_set_new(path, "post", post);
    return path;
}

static json_t *openapi_order_schema(const struct openapi_feed *feed)
{
    json_t *filters = json_object();
    for (size_t i = 0; i < feed->filter_count; i++)
        json_object_set_new(filters, feed->filters[i].name, json_loads(feed->filters[i].schema, 0, NULL));
    return json_pack("{s:s, s:s, s:b, s:{s:{s:s, s:b, s:o}, s:o}}", "x-belfry-feed", feed->name, "type",
                     "object", "additionalProperties", 0, "properties", "filters", "type", "object",
                     "additionalProperties", 0, "properties", filters, "format",
                     openapi_ref("schemas", "ExportFormat"));
}

static json_t *openapi_entry(const struct openapi_feed *feed)
{
    json_t *properties = json_object(), *required = json_array();
    for (size_t i = 0; i < feed->column_count; i++) {
        json_object_set_new(properties, feed->columns[i].name, json_loads(feed->columns[i].schema, 0, NULL));
        json_array_append_new(required, json_string(feed->columns[i].name));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "x-belfry-feed", feed->name, "type", "object", "required",
                     required, "properties", properties);
}

/* The built-in feed's page with the feed's key, entries and contracts. */
static json_t *openapi_page(const struct openapi_feed *feed, json_t *schemas)
{
    static const char *const items_at[] = {"NotificationPage", "properties", "items", NULL};
    char entry[NAME_MAX];
    const char *name;
    json_t *value, *model = json_object_get(json_object_get(schemas, "NotificationPage"), "properties");
    json_t *items = json_deep_copy(openapi_at(schemas, items_at)), *properties = json_object();
    snprintf(entry, sizeof entry, "%s_entry", feed->name);
    json_object_set_new(items, "items", openapi_ref("schemas", entry));
    json_object_set_new(properties, feed->items_key, items);
    json_object_foreach(model, name, value)
    {
        if (strcmp(name, "items") != 0)
            json_object_set_new(properties, name, json_deep_copy(value));
    }
    if (!feed->boundary)
        json_object_set_new(json_object_get(properties, "contract"), "enum", json_pack("[s]", "live"));
    if (!feed->gapless)
        json_object_set_new(properties, "gapless", openapi_ref("schemas", "NotGapless"));
    json_t *required = json_array();
    json_object_foreach(properties, name, value) json_array_append_new(required, json_string(name));
    return json_pack("{s:s, s:s, s:o, s:o}", "x-belfry-feed", feed->name, "type", "object", "required",
                     required, "properties", properties);
}

/* False: no memory. */
static bool openapi_add(const struct openapi_feed *feed, json_t *paths, json_t *schemas)
{
    char name[PATH_MAX];
    const char *below = feed->scoped ? "/v1/workspaces/{workspace}" : "/v1";
    int failed = 0;
    json_t *model = json_object_get(json_object_get(paths, MODEL_PATH), "get");
    json_t *order = json_object_get(json_object_get(paths, MODEL_ORDER), "post");
    snprintf(name, sizeof name, "%s/feeds/%s", below, feed->name);
    failed |= json_object_set_new(paths, name, openapi_path(feed, model, false));
    if (feed->path != NULL)
        failed |= json_object_set_new(paths, feed->path, openapi_path(feed, model, true));
    if (!feed->open) {
        snprintf(name, sizeof name, "%s/feeds/%s/exports", below, feed->name);
        failed |= json_object_set_new(paths, name, openapi_order(feed, order));
        snprintf(name, sizeof name, "%s_order", feed->name);
        failed |= json_object_set_new(schemas, name, openapi_order_schema(feed));
    }
    snprintf(name, sizeof name, "%s_entry", feed->name);
    failed |= json_object_set_new(schemas, name, openapi_entry(feed));
    snprintf(name, sizeof name, "%s_page", feed->name);
    failed |= json_object_set_new(schemas, name, openapi_page(feed, schemas));
    return failed == 0;
}

static int openapi_take(const char *bytes, size_t count, void *out)
{
    buffer_add(out, bytes, count);
    return 0;
}

enum status openapi_write(const struct openapi_feed *feeds, size_t count, struct buffer *out,
                          struct fault *fault)
{
    static const char *const schemas_at[] = {"components", "schemas", NULL};
    json_t *root = json_loads(contract_openapi, JSON_REJECT_DUPLICATES, NULL);
    json_t *paths = json_object_get(root, "paths"), *schemas = openapi_at(root, schemas_at);
    if (json_object_get(paths, MODEL_PATH) == NULL || schemas == NULL) {
        json_decref(root);
        fault_set(fault, "openapi", "the embedded document could not be read");
        return ST_FATAL;
    }
    openapi_drop_examples(paths);
    openapi_drop_examples(schemas);
    bool written = true;
    for (size_t i = 0; i < count && written; i++)
        written = openapi_add(&feeds[i], paths, schemas);
    written = written && json_dump_callback(root, openapi_take, out, JSON_COMPACT) == 0 && !out->failed;
    json_decref(root);
    if (written)
        return ST_OK;
    fault_set(fault, "memory", "no memory for the document");
    return ST_FATAL;
}
