/* config/contracts/openapi.json against the tables of the code, both ways; and what a reader serves of it. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed/calls.h"
#include "feed/document.h"
#include "wire/openapi.h"

enum { ROWS_MAX = 64, PATH_MAX = 256, PAGE_BYTES_MAX = 64 * 1024 };

static json_t *document_load(void)
{
    json_error_t error;
    json_t *root =
        json_load_file(BELFRY_SOURCE_DIR "/config/contracts/openapi.json", JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(root, "line %d: %s", error.line, error.text);
    return root;
}

static json_t *at(json_t *root, const char *a, const char *b)
{
    json_t *found = json_object_get(json_object_get(root, a), b);
    cr_assert_not_null(found, "%s.%s", a, b);
    return found;
}

/* A request's path: a value for each name in braces. */
static void sample(const char *path, char *out)
{
    static const struct {
        const char *name, *value;
    } values[] = {{"{workspace}", "acme"}, {"{id}", "0199d0a2-7c00-7000-8000-000000000003"}};
    *out = '\0';
    while (*path != '\0') {
        size_t i = 0, count = sizeof values / sizeof values[0];
        while (i < count && strncmp(path, values[i].name, strlen(values[i].name)) != 0)
            i++;
        if (i < count) {
            strcat(out, values[i].value);
            path += strlen(values[i].name);
        } else {
            cr_assert_neq(*path, '{', "no value for %s", path);
            strncat(out, path++, 1);
        }
    }
}

static enum http_method method_of(const char *name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = {{"get", HTTP_GET}, {"post", HTTP_POST}, {"delete", HTTP_DELETE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].method;
    return HTTP_OTHER;
}

/* Which of the calls answers. A path that is a declared feed's own is found by the feed, not by its form. */
static void answers(const char *path, const json_t *item, bool *documented)
{
    static const char *const others[] = {"parameters", "x-belfry-feed"};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)item, name, value)
    {
        char sampled[PATH_MAX];
        struct route route;
        struct fault fault;
        const struct call *call = NULL;
        if (strcmp(name, others[0]) == 0 || strcmp(name, others[1]) == 0)
            continue;
        sample(path, sampled);
        routes_find(span_of(sampled), &route);
        if (json_object_get(item, "x-belfry-feed") != NULL && strncmp(path, "/v1/", 4) != 0)
            route.kind = ROUTE_FEED;
        cr_expect_eq(calls_find(&route, method_of(name), &call, &fault), ST_OK, "%s %s is documented only",
                     name, path);
        for (size_t i = 0; call != NULL && calls_at(i) != NULL; i++)
            documented[i] |= call == calls_at(i);
    }
}

Test(openapi, calls)
{
    bool documented[ROWS_MAX] = {false};
    const char *path;
    json_t *item, *root = document_load();
    size_t paths = 0, calls = 0;
    json_object_foreach(json_object_get(root, "paths"), path, item)
    {
        answers(path, item, documented);
        paths++;
    }
    for (; calls_at(calls) != NULL; calls++)
        cr_expect(documented[calls], "row %zu of the calls (route %d, method %d) is not documented", calls,
                  calls_at(calls)->route, calls_at(calls)->method);
    printf("%zu paths, %zu calls\n", paths, calls);
    cr_assert_gt(calls, 6);
    json_decref(root);
}

/* Codes of the HTTP server itself (src/io/http_*.c), before a call is known. */
static const struct {
    const char *code;
    int status;
} server_codes[] = {{"too_large", 413}, {"too_large", 414}, {"too_large", 431}, {"http_version", 505}};

static bool code_known(const char *code, int64_t status)
{
    int found;
    const char *known;
    for (size_t i = 0; (known = reply_code_at(i, &found)) != NULL; i++)
        if (strcmp(known, code) == 0 && found == status)
            return true;
    for (size_t i = 0; i < sizeof server_codes / sizeof server_codes[0]; i++)
        if (strcmp(server_codes[i].code, code) == 0 && server_codes[i].status == status)
            return true;
    return false;
}

/* The codes of one response of the components, added to "status code" pairs. */
static void codes_of(json_t *response, json_t *pairs)
{
    json_t *content = json_object_get(response, "content"), *code;
    json_t *problem = json_object_get(content, "application/problem+json");
    if (problem == NULL)
        return;
    json_t *says = json_object_get(
        json_array_get(json_object_get(json_object_get(problem, "schema"), "allOf"), 1), "properties");
    int64_t status = json_integer_value(at(says, "status", "const"));
    size_t index;
    json_array_foreach(at(says, "code", "enum"), index, code)
    {
        char pair[128];
        cr_expect(code_known(json_string_value(code), status), "%s with %d is documented only",
                  json_string_value(code), (int)status);
        snprintf(pair, sizeof pair, "%d %s", (int)status, json_string_value(code));
        json_object_set_new(pairs, pair, json_true());
    }
}

Test(openapi, codes)
{
    const char *name, *code;
    json_t *response, *root = document_load(), *pairs = json_object();
    int status;
    json_object_foreach(at(root, "components", "responses"), name, response) codes_of(response, pairs);
    for (size_t i = 0; (code = reply_code_at(i, &status)) != NULL; i++) {
        char pair[128];
        snprintf(pair, sizeof pair, "%d %s", status, code);
        cr_expect_not_null(json_object_get(pairs, pair), "%s is not documented", pair);
    }
    printf("%zu pairs of status and code\n", json_object_size(pairs));
    cr_assert_gt(json_object_size(pairs), 15);
    json_decref(pairs);
    json_decref(root);
}

/* What clients buy stands word for word in the page for them and in the document. */
Test(openapi, table)
{
    static char page[PAGE_BYTES_MAX];
    FILE *file = fopen(BELFRY_SOURCE_DIR "/config/contracts/reader.md", "r");
    cr_assert_not_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    char *table = strstr(page, "| contract | promise | not promised |\n");
    cr_assert_not_null(table);
    char *end = strstr(table, "|\n\n");
    cr_assert_not_null(end);
    end[1] = '\0';
    json_t *root = document_load();
    cr_assert_not_null(strstr(json_string_value(at(root, "info", "description")), table), "%s", table);
    cr_assert_not_null(strstr(table, "| `snapshot` |"));
    printf("%zu bytes of table\n", strlen(table));
    json_decref(root);
}

/* The examples as a reader gets them from its configuration. */
static const struct source activity = {
    .name = "activity",
    .workspace = "workspace_id",
    .id_type = SOURCE_UUID,
    .items_key = "items",
    .columns = {{"id", "id", SOURCE_UUID, false},
                {"created_at", "created_at", SOURCE_TIME, false},
                {"event_type", "event_type", SOURCE_TEXT, false}},
    .column_count = 3,
    .filters = {{"event_type", "event_type", SOURCE_TEXT, SOURCE_TEXT_FILTER_MAX}},
    .filter_count = 1,
    .auth = SOURCE_MEMBER,
    .xid = "inserted_xid",
    .settled = "activity",
};

static const struct source posts = {
    .name = "posts",
    .path = "/posts",
    .id_type = SOURCE_BIGINT,
    .id_number = true,
    .items_key = "posts",
    .columns = {{"id", "id", SOURCE_BIGINT, false},
                {"author", "author", SOURCE_TEXT, false},
                {"body", "body", SOURCE_TEXT, false},
                {"created_at", "created_at", SOURCE_TIME, false}},
    .column_count = 4,
    .auth = SOURCE_OPEN,
    .settled = "posts",
};

static json_t *document_of(const struct source *const *sources, size_t count)
{
    struct fault fault;
    struct buffer text;
    buffer_init(&text, 1024 * 1024);
    cr_assert_eq(document_write(sources, count, &text, &fault), ST_OK);
    json_t *root = json_loadb(text.at, text.bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root);
    buffer_done(&text);
    return root;
}

/* With the example feeds a reader serves the repository's document itself. */
Test(openapi, examples)
{
    static const struct source *const sources[] = {&activity, &posts};
    json_t *root = document_load(), *served = document_of(sources, 2);
    if (!json_equal(root, served)) {
        json_dump_file(served, "openapi-served.json", JSON_INDENT(2) | JSON_SORT_KEYS);
        cr_assert_fail("with the example feeds another document is served: see openapi-served.json");
    }
    json_decref(served);
    json_decref(root);
}

/* Every kind of value, and none of the examples. */
Test(openapi, kinds)
{
    static const struct source kinds = {
        .name = "kinds",
        .workspace = "w",
        .id_type = SOURCE_BIGINT,
        .id_number = true,
        .items_key = "entries",
        .columns = {{"id", "id", SOURCE_BIGINT, false},
                    {"a", "a", SOURCE_INTEGER, false},
                    {"b", "b", SOURCE_NUMERIC, false},
                    {"c", "c", SOURCE_BOOLEAN, false},
                    {"d", "d", SOURCE_JSON, false},
                    {"e", "e", SOURCE_UUID, false},
                    {"f \"g\"", "\"f \"\"g\"\"\"", SOURCE_TIME, false},
                    {"created_at", "created_at", SOURCE_TIME, false}},
        .column_count = 8,
        .filters = {{"a", "a", SOURCE_INTEGER, 0},
                    {"big", "big", SOURCE_BIGINT, 0},
                    {"c", "c", SOURCE_BOOLEAN, 0},
                    {"e", "e", SOURCE_UUID, 0}},
        .filter_count = 4,
        .auth = SOURCE_MEMBER,
        .roles = {"admin"},
        .role_count = 1,
    };
    static const struct source *const sources[] = {&kinds};
    json_t *root = document_of(sources, 1), *schemas = at(root, "components", "schemas");
    json_t *properties = at(schemas, "kinds_entry", "properties");
    cr_assert_null(json_object_get(json_object_get(root, "paths"), "/posts"));
    cr_assert_null(json_object_get(schemas, "activity_entry"));
    cr_assert_eq(json_object_size(properties), 8);
    cr_assert_str_eq(json_string_value(at(properties, "id", "type")), "integer");
    cr_assert_not_null(json_object_get(properties, "f \"g\""));
    json_t *get = at(json_object_get(root, "paths"), "/v1/workspaces/{workspace}/feeds/kinds", "get");
    cr_assert_eq(json_array_size(json_object_get(get, "parameters")), 9);
    cr_assert_str_eq(json_string_value(at(json_object_get(get, "responses"), "403", "$ref")),
                     "#/components/responses/Forbidden");
    cr_assert_not_null(json_object_get(at(schemas, "kinds_page", "properties"), "entries"));
    cr_assert_not_null(json_object_get(at(schemas, "kinds_page", "properties"), "gapless"));
    json_decref(root);
}
