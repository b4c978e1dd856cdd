/* In: the pairs of each [feed.NAME]. Out: declarations whose every key makes sense by itself and with the
 * others. Always: names of relation and columns are plain identifiers, and what a client will see (names,
 * paths, the items' key) collides with nothing of ours. A crash here is a crash at start. */
#include "feed/declare.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { IDENTIFIER_MAX = 63, ROLE_BYTES_MAX = 200, LISTED_MAX = 64 };

enum key {
    KEY_RELATION,
    KEY_COLUMNS,
    KEY_WORKSPACE_COLUMN,
    KEY_USER_COLUMN,
    KEY_FILTERS,
    KEY_ID_TYPE,
    KEY_ID_JSON,
    KEY_ITEMS_KEY,
    KEY_PATH,
    KEY_AUTH,
    KEY_ROLES,
    KEY_ROLES_COLUMN,
    KEY_XID_COLUMN,
    KEYS
};

static const char *const key_names[KEYS] = {
    "relation", "columns",      "workspace_column", "user_column", "filters",
    "id_type",  "id_json",      "items_key",        "path",        "auth",
    "roles",    "roles_column", "xid_column",
};

/* One section being read. */
struct reading {
    const struct config_pairs *section;
    const char *values[KEYS]; /* NULL: not given */
    struct arena *arena;
    struct source_declaration *made;
    const struct declared *before; /* the sections read so far */
};

/* config_blame puts the place before it. key KEYS: the section as a whole. */
#define REFUSE(reading, key, fault, ...) declare_refuse(reading, key, fault, __VA_ARGS__)
__attribute__((format(printf, 4, 5))) static enum status
declare_refuse(const struct reading *reading, enum key key, struct fault *fault, const char *format, ...)
{
    char text[FAULT_TEXT_MAX], field[FAULT_FIELD_MAX];
    const char *feed = reading->section->name, *name = key < KEYS ? key_names[key] : "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fault_set(fault, "config", "[feed.%s]%s%s: %.600s", feed, name[0] == '\0' ? "" : " ", name, text);
    snprintf(field, sizeof field, "feed.%s%s%s", feed, name[0] == '\0' ? "" : ".", name);
    fault_set_field(fault, field);
    return ST_REJECT;
}

static enum status declare_no_memory(struct fault *fault)
{
    fault_set(fault, "memory", "no memory for the feeds' declarations");
    return ST_FATAL;
}

static bool declare_given(const struct reading *reading, enum key key)
{
    return reading->values[key] != NULL;
}

/* ---- words --------------------------------------------------------------------------------------------- */

static bool declare_is_of(struct span text, const char *characters)
{
    for (size_t i = 0; i < text.bytes; i++)
        if (strchr(characters, text.at[i]) == NULL)
            return false;
    return text.bytes > 0;
}

#define LOWER   "abcdefghijklmnopqrstuvwxyz"
#define UPPER   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"
#define LETTERS LOWER UPPER "_"

static bool declare_is_identifier(struct span text)
{
    return text.bytes <= IDENTIFIER_MAX && declare_is_of(text, LETTERS DIGITS) &&
           strchr(DIGITS, text.at[0]) == NULL;
}

/* A list's next word, by commas or blanks; at NULL: there is none. */
static struct span declare_next(const char **rest)
{
    const char *at = *rest + strspn(*rest, ", \t");
    size_t bytes = strcspn(at, ", \t");
    *rest = at + bytes;
    return bytes == 0 ? (struct span){NULL, 0} : (struct span){at, bytes};
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

static enum status declare_find_keys(struct reading *reading, struct fault *fault)
{
    for (size_t i = 0; i < reading->section->count; i++) {
        const struct config_pair *pair = &reading->section->pairs[i];
        const char *nearest = NULL;
        size_t distance = 0;
        enum key key = 0;
        for (; key < KEYS && strcmp(pair->key, key_names[key]) != 0; key++)
            nearest = config_nearest(pair->key, nearest, key_names[key], &distance);
        if (key == KEYS)
            return REFUSE(reading, KEYS, fault, "unknown key \"%.100s\" in line %d%s%s%s", pair->key,
                          pair->line, nearest == NULL ? "" : "; did you mean ",
                          nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
        if (pair->value[0] == '\0')
            continue; /* as everywhere: empty is not given */
        reading->values[key] = pair->value;
    }
    return ST_OK;
}

/* A word against choices that end with NULL; the place of the one it is. */
static enum status declare_choose(const struct reading *reading, enum key key, const char *const *choices,
                                  unsigned *place, struct fault *fault)
{
    char all[128] = "";
    *place = 0;
    for (unsigned i = 0; choices[i] != NULL; i++) {
        if (!declare_given(reading, key) || strcmp(reading->values[key], choices[i]) == 0) {
            *place = i; /* the first is the default */
            return ST_OK;
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i == 0 ? "" : ", ", choices[i]);
    }
    return REFUSE(reading, key, fault, "takes one of %s, not \"%.100s\"", all, reading->values[key]);
}

static enum status declare_name(struct reading *reading, struct fault *fault)
{
    struct span name = span_of(reading->section->name);
    if (span_is(name, source_notifications.name))
        return REFUSE(reading, KEYS, fault, "notifications is the built-in feed; give this one another name");
    if (name.bytes > SOURCE_NAME_MAX || !declare_is_of(name, LOWER DIGITS "_-"))
        return REFUSE(reading, KEYS, fault,
                      "a feed's name is 1 to %d of a-z, 0-9, _ and -, as it stands in paths and cursors",
                      SOURCE_NAME_MAX);
    reading->made->name = arena_copy(reading->arena, name);
    return reading->made->name != NULL ? ST_OK : declare_no_memory(fault);
}

static enum status declare_relation(struct reading *reading, struct fault *fault)
{
    if (!declare_given(reading, KEY_RELATION))
        return REFUSE(reading, KEY_RELATION, fault, "must be given: the table the feed is read from");
    struct span all = span_of(reading->values[KEY_RELATION]), schema = {NULL, 0}, table = all;
    const char *dot = strchr(all.at, '.');
    if (dot != NULL) {
        schema = (struct span){all.at, (size_t)(dot - all.at)};
        table = span_of(dot + 1);
    }
    if ((dot != NULL && !declare_is_identifier(schema)) || !declare_is_identifier(table))
        return REFUSE(reading, KEY_RELATION, fault,
                      "takes table or schema.table as the catalog spells them (letters, digits and _, no "
                      "quotes), not \"%.150s\"",
                      all.at);
    struct source_declaration *made = reading->made;
    made->schema = dot == NULL ? NULL : arena_copy(reading->arena, schema);
    made->relation = arena_copy(reading->arena, table);
    return made->relation == NULL || (dot != NULL && made->schema == NULL) ? declare_no_memory(fault) : ST_OK;
}

static enum status declare_column(struct reading *reading, enum key key, const char **column,
                                  struct fault *fault)
{
    if (!declare_given(reading, key))
        return ST_OK;
    struct span name = span_of(reading->values[key]);
    if (!declare_is_identifier(name))
        return REFUSE(reading, key, fault,
                      "takes one column as the catalog spells it (letters, digits and _), not \"%.100s\"",
                      name.at);
    *column = arena_copy(reading->arena, name);
    return *column != NULL ? ST_OK : declare_no_memory(fault);
}

static bool declare_lists(const char *const *names, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++)
        if (span_is(name, names[i]))
            return true;
    return false;
}

static enum status declare_columns(struct reading *reading, struct fault *fault)
{
    struct source_declaration *made = reading->made;
    if (!declare_given(reading, KEY_COLUMNS))
        return REFUSE(reading, KEY_COLUMNS, fault,
                      "must be given: what an entry shows, such as id, created_at, title");
    const char *rest = reading->values[KEY_COLUMNS];
    for (struct span name = declare_next(&rest); name.at != NULL; name = declare_next(&rest)) {
        if (!declare_is_identifier(name))
            return REFUSE(reading, KEY_COLUMNS, fault,
                          "\"%.*s\" is no column as the catalog spells it (letters, digits and _)",
                          (int)(name.bytes > LISTED_MAX ? LISTED_MAX : name.bytes), name.at);
        if (declare_lists(made->columns, made->column_count, name))
            return REFUSE(reading, KEY_COLUMNS, fault, "%.*s stands there twice", (int)name.bytes, name.at);
        if (made->column_count == SOURCE_COLUMNS_MAX)
            return REFUSE(reading, KEY_COLUMNS, fault, "at most %d columns", SOURCE_COLUMNS_MAX);
        made->columns[made->column_count] = arena_copy(reading->arena, name);
        if (made->columns[made->column_count++] == NULL)
            return declare_no_memory(fault);
    }
    static const char *const needed[] = {"id", "created_at"};
    for (size_t i = 0; i < 2; i++)
        if (!declare_lists(made->columns, made->column_count, span_of(needed[i])))
            return REFUSE(reading, KEY_COLUMNS, fault,
                          "%s must be among them: (created_at, id) is the order, and clients merge by id",
                          needed[i]);
    return ST_OK;
}

/* ---- filters ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum source_type type;
} filter_types[] = {
    {"text", SOURCE_TEXT},       {"integer", SOURCE_INTEGER}, {"bigint", SOURCE_BIGINT},
    {"boolean", SOURCE_BOOLEAN}, {"uuid", SOURCE_UUID},
};

static bool declare_filter_type(struct span name, enum source_type *type)
{
    for (size_t i = 0; i < sizeof filter_types / sizeof filter_types[0]; i++)
        if (span_is(name, filter_types[i].name)) {
            *type = filter_types[i].type;
            return true;
        }
    return false;
}

static enum status declare_filter(struct reading *reading, struct span word, struct fault *fault)
{
    static const char *const ours[] = {"limit", "cursor", "direction", "contract", "unread"};
    struct source_declaration *made = reading->made;
    const char *colon = memchr(word.at, ':', word.bytes);
    struct span name = {word.at, colon == NULL ? word.bytes : (size_t)(colon - word.at)};
    struct span type = {colon == NULL ? NULL : colon + 1, colon == NULL ? 0 : word.bytes - name.bytes - 1};
    int shown = (int)(word.bytes > LISTED_MAX ? LISTED_MAX : word.bytes);
    if (!declare_is_identifier(name))
        return REFUSE(reading, KEY_FILTERS, fault,
                      "\"%.*s\" is no column as the catalog spells it, or column:type", shown, word.at);
    if (declare_lists(ours, sizeof ours / sizeof ours[0], name))
        return REFUSE(reading, KEY_FILTERS, fault, "%.*s is a parameter of every feed", (int)name.bytes,
                      name.at);
    for (size_t i = 0; i < made->filter_count; i++)
        if (span_is(name, made->filters[i].column))
            return REFUSE(reading, KEY_FILTERS, fault, "%.*s stands there twice", (int)name.bytes, name.at);
    if (made->filter_count == SOURCE_FILTERS_MAX)
        return REFUSE(reading, KEY_FILTERS, fault, "at most %d filters", SOURCE_FILTERS_MAX);
    if (colon != NULL && !declare_filter_type(type, &made->filters[made->filter_count].type))
        return REFUSE(reading, KEY_FILTERS, fault,
                      "a filter's type is text, integer, bigint, boolean or uuid, not as in \"%.*s\"", shown,
                      word.at);
    made->filters[made->filter_count].typed = colon != NULL;
    made->filters[made->filter_count].column = arena_copy(reading->arena, name);
    return made->filters[made->filter_count++].column != NULL ? ST_OK : declare_no_memory(fault);
}

static enum status declare_filters(struct reading *reading, struct fault *fault)
{
    enum status status = ST_OK;
    const char *rest = declare_given(reading, KEY_FILTERS) ? reading->values[KEY_FILTERS] : "";
    for (struct span word = declare_next(&rest); status == ST_OK && word.at != NULL;
         word = declare_next(&rest))
        status = declare_filter(reading, word, fault);
    return status;
}

/* ---- what clients see ---------------------------------------------------------------------------------- */

static enum status declare_id(struct reading *reading, struct fault *fault)
{
    static const char *const types[] = {"uuid", "bigint", "text", NULL};
    static const enum source_type of[] = {SOURCE_UUID, SOURCE_BIGINT, SOURCE_TEXT};
    static const char *const forms[] = {"string", "number", NULL};
    unsigned type = 0, form = 0;
    enum status status = declare_choose(reading, KEY_ID_TYPE, types, &type, fault);
    if (status == ST_OK)
        status = declare_choose(reading, KEY_ID_JSON, forms, &form, fault);
    if (status != ST_OK)
        return status;
    if (form == 1 && of[type] != SOURCE_BIGINT)
        return REFUSE(reading, KEY_ID_JSON, fault, "number goes with id_type = bigint only, this one is %s",
                      types[type]);
    reading->made->id_type = of[type];
    reading->made->id_number = form == 1;
    return ST_OK;
}

static enum status declare_items_key(struct reading *reading, struct fault *fault)
{
    static const char *const ours[] = {"next_cursor", "prev_cursor", "has_more", "contract", "gapless"};
    struct span key = span_of(declare_given(reading, KEY_ITEMS_KEY) ? reading->values[KEY_ITEMS_KEY]
                                                                    : source_notifications.items_key);
    if (!declare_is_identifier(key))
        return REFUSE(reading, KEY_ITEMS_KEY, fault, "takes a name of letters, digits and _, not \"%.100s\"",
                      key.at);
    if (declare_lists(ours, sizeof ours / sizeof ours[0], key))
        return REFUSE(reading, KEY_ITEMS_KEY, fault, "%s is another member of every page", key.at);
    reading->made->items_key = arena_copy(reading->arena, key);
    return reading->made->items_key != NULL ? ST_OK : declare_no_memory(fault);
}

/* "/a/b": parts that mean themselves in every URL, none of them a step. */
static bool declare_is_path(struct span path)
{
    if (path.bytes < 2 || path.bytes > DECLARE_PATH_MAX || path.at[0] != '/' ||
        !declare_is_of(path, LETTERS DIGITS "-.~/"))
        return false;
    for (const char *part = path.at; part != NULL; part = strchr(part + 1, '/')) {
        size_t bytes = strcspn(part + 1, "/");
        if (bytes == 0 || strspn(part + 1, ".") == bytes)
            return false;
    }
    return true;
}

static enum status declare_path(struct reading *reading, struct fault *fault)
{
    static const char *const ours[] = {"v1", "livez", "readyz", "metrics", "openapi.json"};
    struct source_declaration *made = reading->made;
    if (!declare_given(reading, KEY_PATH))
        return ST_OK;
    const char *path = reading->values[KEY_PATH];
    if (!declare_is_path(span_of(path)))
        return REFUSE(reading, KEY_PATH, fault,
                      "takes a path such as /posts (letters, digits, _ - . ~, no / at its end), not "
                      "\"%.100s\"",
                      path);
    if (declare_lists(ours, sizeof ours / sizeof ours[0], (struct span){path + 1, strcspn(path + 1, "/")}))
        return REFUSE(reading, KEY_PATH, fault, "%.100s is the reader's own", path);
    if (declare_given(reading, KEY_WORKSPACE_COLUMN))
        return REFUSE(reading, KEY_PATH, fault,
                      "a path of its own has no place for the workspace: leave out path or workspace_column");
    for (size_t i = 0; i < reading->before->count; i++) {
        const struct source_declaration *other = &reading->before->feeds[i];
        if (other->path != NULL && strcmp(other->path, path) == 0)
            return REFUSE(reading, KEY_PATH, fault, "%.100s is the path of [feed.%s] already", path,
                          other->name);
    }
    made->path = arena_copy(reading->arena, span_of(path));
    return made->path != NULL ? ST_OK : declare_no_memory(fault);
}

/* ---- who may read -------------------------------------------------------------------------------------- */

static enum status declare_roles(struct reading *reading, struct fault *fault)
{
    struct source_declaration *made = reading->made;
    const char *rest = declare_given(reading, KEY_ROLES) ? reading->values[KEY_ROLES] : "";
    for (struct span role = declare_next(&rest); role.at != NULL; role = declare_next(&rest)) {
        if (role.bytes > ROLE_BYTES_MAX || !utf8_is_text(role))
            return REFUSE(reading, KEY_ROLES, fault, "a role is UTF-8 text of at most %d bytes",
                          ROLE_BYTES_MAX);
        if (declare_lists(made->roles, made->role_count, role))
            return REFUSE(reading, KEY_ROLES, fault, "%.*s stands there twice", (int)role.bytes, role.at);
        if (made->role_count == SOURCE_ROLES_MAX)
            return REFUSE(reading, KEY_ROLES, fault, "at most %d roles", SOURCE_ROLES_MAX);
        made->roles[made->role_count] = arena_copy(reading->arena, role);
        if (made->roles[made->role_count++] == NULL)
            return declare_no_memory(fault);
    }
    return ST_OK;
}

static enum status declare_auth(struct reading *reading, struct fault *fault)
{
    static const char *const choices[] = {"member", "user", "none", NULL};
    static const enum source_auth of[] = {SOURCE_MEMBER, SOURCE_USER, SOURCE_OPEN};
    static const enum key members_only[] = {KEY_ROLES, KEY_ROLES_COLUMN};
    unsigned place = 0;
    enum status status = declare_choose(reading, KEY_AUTH, choices, &place, fault);
    if (status != ST_OK)
        return status;
    reading->made->auth = of[place];
    if (of[place] == SOURCE_MEMBER && !declare_given(reading, KEY_WORKSPACE_COLUMN))
        return REFUSE(reading, KEY_AUTH, fault,
                      "member (the default) asks for membership of a workspace: give workspace_column, or "
                      "auth = user or none");
    if (of[place] == SOURCE_OPEN && declare_given(reading, KEY_USER_COLUMN))
        return REFUSE(reading, KEY_USER_COLUMN, fault, "with auth = none nobody is known to be the user");
    for (size_t i = 0; i < 2; i++)
        if (of[place] != SOURCE_MEMBER && declare_given(reading, members_only[i]))
            return REFUSE(reading, members_only[i], fault,
                          "a role is a member's, and this feed has auth = %s", choices[place]);
    return ST_OK;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static enum status declare_feed(struct reading *reading, struct fault *fault)
{
    static enum status (*const steps[])(struct reading *, struct fault *) = {
        declare_name, declare_find_keys, declare_relation, declare_columns, declare_filters,
        declare_id,   declare_items_key, declare_path,     declare_auth,    declare_roles,
    };
    struct source_declaration *made = reading->made;
    const struct {
        enum key key;
        const char **column;
    } columns[] = {
        {KEY_WORKSPACE_COLUMN, &made->workspace_column},
        {KEY_USER_COLUMN, &made->user_column},
        {KEY_ROLES_COLUMN, &made->roles_column},
        {KEY_XID_COLUMN, &made->xid_column},
    };
    enum status status = ST_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == ST_OK; i++)
        status = steps[i](reading, fault);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0] && status == ST_OK; i++)
        status = declare_column(reading, columns[i].key, columns[i].column, fault);
    if (status == ST_OK && made->workspace_column != NULL && made->user_column != NULL &&
        strcmp(made->workspace_column, made->user_column) == 0)
        return REFUSE(reading, KEY_USER_COLUMN, fault, "%s is the workspace_column already",
                      made->user_column);
    return status;
}

enum status declare_feeds(const struct config_named *sections, struct arena *arena, struct declared *declared,
                          struct fault *fault)
{
    struct source_declaration *feeds = arena_array(arena, sections->count + 1, sizeof *feeds);
    struct declared made = {.feeds = feeds};
    if (feeds == NULL)
        return declare_no_memory(fault);
    for (; made.count < sections->count; made.count++) {
        struct reading reading = {.section = &sections->sections[made.count],
                                  .arena = arena,
                                  .made = &feeds[made.count],
                                  .before = &made};
        enum status status = declare_feed(&reading, fault);
        if (status != ST_OK)
            return status;
    }
    *declared = made;
    return ST_OK;
}
