/* File, environment and flags in, a filled settings struct out. Each value in force is one entry that knows
 * where it came from; a later source replaces the entry of an earlier one. Nothing is half applied: the
 * settings are written only after every source was read. */
#include "base/config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_private.h"

enum { ARENA_BYTES_MAX = 8 * 1024 * 1024, ENTRIES_MAX = 4096, SECRET_BYTES_MAX = 64 * 1024 };

/* One value as a source gives it. */
struct source {
    struct span section, key, value;
    enum config_origin origin;
    const char *where;
    int line;
};

void config_init(struct config *config, const struct config_table *table)
{
    *config = (struct config){.table = table};
    arena_init(&config->arena, ARENA_BYTES_MAX);
}

void config_done(struct config *config)
{
    free(config->entries);
    arena_done(&config->arena);
    config_init(config, config->table);
}

__attribute__((format(printf, 4, 5))) static enum status
refuse(struct fault *fault, const struct source *source, const char *key, const char *format, ...)
{
    char what[FAULT_TEXT_MAX], field[FAULT_FIELD_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(field, sizeof field, "%.*s%s%s", (int)(source->section.bytes % FAULT_FIELD_MAX),
             source->section.at, key[0] == '\0' ? "" : ".", key);
    fault_set(fault, "config", "%s: %s", source->where, what);
    fault_set_field(fault, field);
    return ST_REJECT;
}

enum status config_refuse_size(struct fault *fault)
{
    fault_set(fault, "config", "the configuration is too large");
    return ST_REJECT;
}

void config_warn(struct config *config, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = arena_copy(&config->arena, span_of(text));
    if (copy != NULL && config->warning_count < CONFIG_WARNINGS_MAX)
        config->warnings[config->warning_count++] = copy;
}

static const struct config_key *find_key(const struct config_section *section, struct span name)
{
    for (size_t i = 0; i < section->key_count; i++) {
        if (span_is(name, section->keys[i].key))
            return &section->keys[i];
    }
    return NULL;
}

/* named is what stands behind the dot of a [feed.NAME]. */
static const struct config_section *find_section(const struct config_table *table, struct span name,
                                                 struct span *named)
{
    for (size_t i = 0; i < table->section_count; i++) {
        const struct config_section *section = &table->sections[i];
        size_t bytes = strlen(section->name);
        if (section->kind != CONFIG_NAMED && span_is(name, section->name))
            return section;
        if (section->kind == CONFIG_NAMED && name.bytes > bytes + 1 && name.at[bytes] == '.' &&
            memcmp(name.at, section->name, bytes) == 0) {
            *named = (struct span){name.at + bytes + 1, name.bytes - bytes - 1};
            return section;
        }
    }
    return NULL;
}

static enum status refuse_section(const struct config *config, const struct source *source,
                                  struct fault *fault)
{
    char written[CONFIG_NAME_MAX + 1];
    const char *nearest = NULL;
    size_t distance = 0;
    snprintf(written, sizeof written, "%.*s", (int)source->section.bytes, source->section.at);
    for (size_t i = 0; i < config->table->section_count; i++) {
        const struct config_section *section = &config->table->sections[i];
        if (section->kind == CONFIG_NAMED && strcmp(written, section->name) == 0)
            return refuse(fault, source, "", "[%s] needs a name: [%s.NAME]", written, written);
        nearest = config_nearest(written, nearest, section->name, &distance);
    }
    if (nearest == NULL)
        return refuse(fault, source, "", "unknown section [%s]", written);
    return refuse(fault, source, "", "unknown section [%s]; did you mean [%s]?", written, nearest);
}

static enum status refuse_key(const struct config *config, const struct source *source,
                              const struct config_section *section, struct fault *fault)
{
    char written[CONFIG_NAME_MAX + 1];
    const char *nearest = NULL;
    size_t distance = 0;
    snprintf(written, sizeof written, "%.*s", (int)source->key.bytes, source->key.at);
    for (size_t i = 0; i < config->table->section_count; i++) {
        if (find_key(&config->table->sections[i], source->key) != NULL)
            return refuse(fault, source, written, "[%s] has no key \"%s\"; it belongs in [%s]", section->name,
                          written, config->table->sections[i].name);
    }
    for (size_t i = 0; i < section->key_count; i++)
        nearest = config_nearest(written, nearest, section->keys[i].key, &distance);
    if (nearest == NULL)
        return refuse(fault, source, written, "unknown key \"%s\" in [%s]", written, section->name);
    return refuse(fault, source, written, "unknown key \"%s\" in [%s]; did you mean \"%s\"?", written,
                  section->name, nearest);
}

static struct config_entry *find_entry(const struct config *config, const struct config_section *section,
                                       struct span named, struct span name)
{
    for (size_t i = 0; i < config->entry_count; i++) {
        struct config_entry *entry = &config->entries[i];
        if (entry->section == section && span_is(name, entry->name) &&
            span_same(span_of(entry->named), named))
            return entry;
    }
    return NULL;
}

static struct config_entry *add_entry(struct config *config)
{
    if (config->entries == NULL)
        config->entries = calloc(ENTRIES_MAX, sizeof *config->entries);
    if (config->entries == NULL || config->entry_count == ENTRIES_MAX)
        return NULL;
    return &config->entries[config->entry_count++];
}

static bool strip_file(struct span *name)
{
    if (name->bytes <= 5 || memcmp(name->at + name->bytes - 5, "_file", 5) != 0)
        return false;
    name->bytes -= 5;
    return true;
}

/* What a value is for: its section, its key, and whether it names a file that holds it. */
struct target {
    const struct config_section *section;
    const struct config_key *key;
    struct span named, name;
    bool from_file;
};

static enum status find_target(const struct config *config, const struct source *source,
                               struct target *target, struct fault *fault)
{
    *target = (struct target){.name = source->key};
    target->section = find_section(config->table, source->section, &target->named);
    if (target->section == NULL)
        return refuse_section(config, source, fault);
    if (source->key.bytes == 0 || target->section->kind == CONFIG_NAMED)
        return ST_OK;
    if (target->section->kind == CONFIG_KEYS) {
        target->key = find_key(target->section, target->name);
        if (target->key != NULL)
            return ST_OK;
        target->from_file = strip_file(&target->name);
        target->key = target->from_file ? find_key(target->section, target->name) : NULL;
        if (target->key == NULL || !config_key_takes_file(target->key))
            return refuse_key(config, source, target->section, fault);
        return ST_OK;
    }
    char name[CONFIG_NAME_MAX + 1];
    target->from_file = strip_file(&target->name);
    snprintf(name, sizeof name, "%.*s", (int)target->name.bytes, target->name.at);
    const char *reason = target->section->refuse == NULL ? NULL : target->section->refuse(name);
    return reason == NULL ? ST_OK : refuse(fault, source, name, "%s may not be set: %s", name, reason);
}

/* A pass-through property x_file is read as x only where x is a secret: ssl.key.pem_file, sasl.password_file.
 */
static enum status read_secret(struct config *config, const struct source *source,
                               const struct target *target, struct config_entry *entry, struct fault *fault)
{
    struct span text;
    const char *path = arena_copy(&config->arena, source->value);
    if (path == NULL)
        return config_refuse_size(fault);
    if (target->key == NULL && !config_pair_is_secret(entry->name))
        return refuse(fault, source, entry->name, "only a secret may be given as a file, not %s",
                      entry->name);
    struct fault inner;
    if (config_read_file(&config->arena, path, SECRET_BYTES_MAX, &text, &inner) != ST_OK)
        return refuse(fault, source, entry->name, "[%s] %s_file: %s", target->section->name, entry->name,
                      inner.text);
    if (config_file_open_to_others(path))
        config_warn(config, "%s ([%s] %s_file) can be read by others; take that away: chmod o-r", path,
                    target->section->name, entry->name);
    entry->path = path;
    entry->value = text.at;
    return ST_OK;
}

static enum status assign(struct config *config, const struct source *source, struct fault *fault)
{
    struct target target;
    enum status status = find_target(config, source, &target, fault);
    if (status != ST_OK || (source->key.bytes == 0 && target.section->kind != CONFIG_NAMED))
        return status;
    struct config_entry *entry = find_entry(config, target.section, target.named, target.name);
    if (entry != NULL && entry->origin == source->origin && source->origin != FROM_FLAG)
        return refuse(fault, source, entry->name, "[%.*s] %s is given twice, first at %s",
                      (int)source->section.bytes, source->section.at,
                      entry->name[0] == '\0' ? "itself" : entry->name, entry->where);
    struct config_entry fresh = {.section = target.section,
                                 .key = target.key,
                                 .name = arena_copy(&config->arena, target.name),
                                 .value = arena_copy(&config->arena, source->value),
                                 .origin = source->origin,
                                 .where = arena_copy(&config->arena, span_of(source->where)),
                                 .line = source->line};
    fresh.named = target.named.bytes == 0 ? NULL : arena_copy(&config->arena, target.named);
    if ((target.named.bytes > 0 && fresh.named == NULL) || fresh.name == NULL || fresh.value == NULL ||
        fresh.where == NULL)
        return config_refuse_size(fault);
    if (target.from_file)
        status = read_secret(config, source, &target, &fresh, fault);
    if (status != ST_OK)
        return status;
    if (entry == NULL)
        entry = add_entry(config);
    if (entry == NULL)
        return config_refuse_size(fault);
    *entry = fresh;
    return ST_OK;
}

static enum status assign_default(struct config *config, const struct config_section *section,
                                  const char *key, const char *value, struct fault *fault)
{
    const struct source source = {
        .section = span_of(section->name), .key = span_of(key), .value = span_of(value), .where = "default"};
    return assign(config, &source, fault);
}

static enum status assign_defaults(struct config *config, struct fault *fault)
{
    enum status status = ST_OK;
    for (size_t i = 0; i < config->table->section_count; i++) {
        const struct config_section *section = &config->table->sections[i];
        for (size_t j = 0; j < section->key_count && status == ST_OK; j++)
            status = assign_default(config, section, section->keys[j].key, section->keys[j].fallback, fault);
        for (const struct config_pair *pair = section->defaults; pair != NULL && pair->key != NULL; pair++) {
            if (status == ST_OK)
                status = assign_default(config, section, pair->key, pair->value, fault);
        }
    }
    return status;
}

struct file_context {
    struct config *config;
    const char *path;
    bool refused; /* by us, with the place in the text; not by the parser */
};

static enum status visit_line(void *context, const struct config_line *line, struct fault *fault)
{
    struct file_context *file = context;
    char where[512];
    snprintf(where, sizeof where, "%s:%d", file->path, line->number);
    const struct source source = {.section = line->section,
                                  .key = line->key,
                                  .value = line->value,
                                  .origin = FROM_FILE,
                                  .where = where,
                                  .line = line->number};
    enum status status = assign(file->config, &source, fault);
    file->refused = status != ST_OK;
    return status;
}

/* A value that a dump would not show as it is. */
static bool is_secret(const struct config_entry *entry)
{
    struct buffer shown;
    buffer_init(&shown, (size_t)2 * CONFIG_FILE_BYTES_MAX);
    config_mask(entry, &shown);
    bool secret = !span_is(buffer_span(&shown), entry->value);
    buffer_done(&shown);
    return secret;
}

/* A secret in a file that everybody may read is worth a word; a file without one is not. */
static void warn_about_file(struct config *config, const char *path)
{
    if (!config_file_open_to_others(path))
        return;
    for (size_t i = 0; i < config->entry_count; i++) {
        const struct config_entry *entry = &config->entries[i];
        if (entry->origin == FROM_FILE && entry->path == NULL && is_secret(entry)) {
            config_warn(config,
                        "%s can be read by others and holds [%s] %s; chmod o-r, or give it as %s_file", path,
                        entry->section->name, entry->name, entry->name);
            return;
        }
    }
}

static enum status assign_file(struct config *config, const char *path, struct fault *fault)
{
    struct span text = {0};
    struct fault inner;
    struct file_context file = {.config = config, .path = path};
    const struct source source = {.where = path};
    char *bytes = malloc(CONFIG_FILE_BYTES_MAX + 1);
    ssize_t got = bytes == NULL ? -1 : config_read_whole(path, bytes, CONFIG_FILE_BYTES_MAX);
    enum status status;
    if (got < 0) {
        status = refuse(fault, &source, "", "cannot be read: %s", strerror(errno));
    } else {
        text = (struct span){bytes, (size_t)got};
        status = config_parse(text, visit_line, &file, &inner);
        if (status != ST_OK && file.refused)
            *fault = inner;
        else if (status != ST_OK)
            fault_set(fault, "config", "%s:%s", path, inner.text);
    }
    free(bytes);
    if (status == ST_OK)
        warn_about_file(config, path);
    return status;
}

/* What Kubernetes puts into the environment for a service called belfry-kafka is not meant for us. */
static bool is_service_link(const char *key)
{
    return strncmp(key, "SERVICE_", 8) == 0 || strcmp(key, "PORT") == 0 ||
           (strncmp(key, "PORT_", 5) == 0 && isdigit((unsigned char)key[5]));
}

/* The section whose name, in upper case and with '_' behind it, begins the variable; key gets the rest. */
static const struct config_section *environment_section(const struct config_table *table, const char *name,
                                                        const char **key)
{
    for (size_t i = 0; i < table->section_count; i++) {
        const struct config_section *section = &table->sections[i];
        size_t bytes = strlen(section->name);
        if (section->kind != CONFIG_NAMED && strncasecmp(name, section->name, bytes) == 0 &&
            name[bytes] == '_') {
            *key = name + bytes + 1;
            return section;
        }
    }
    return NULL;
}

/* variable: NAME=value, NAME behind "BELFRY_". */
static enum status assign_variable(struct config *config, const char *variable, struct fault *fault)
{
    char name[CONFIG_NAME_MAX + 1], where[CONFIG_NAME_MAX + 8];
    const char *equals = strchr(variable, '=');
    const char *rest = NULL;
    if (equals == NULL || equals - variable > CONFIG_NAME_MAX)
        return ST_OK;
    snprintf(name, sizeof name, "%.*s", (int)(equals - variable), variable);
    snprintf(where, sizeof where, "BELFRY_%s", name);
    const struct config_section *section = environment_section(config->table, name, &rest);
    if (section == NULL || rest[0] == '\0' || is_service_link(rest))
        return ST_OK;
    char *key = name + (rest - name);
    for (char *at = key; *at != '\0'; at++)
        *at = (char)(*at == '_' && section->kind == CONFIG_PAIRS ? '.' : tolower((unsigned char)*at));
    size_t bytes = strlen(key);
    if (section->kind == CONFIG_PAIRS && bytes > 5 && strcmp(key + bytes - 5, ".file") == 0)
        key[bytes - 5] = '_';
    const struct source source = {.section = span_of(section->name),
                                  .key = span_of(key),
                                  .value = span_of(equals + 1),
                                  .origin = FROM_ENVIRONMENT,
                                  .where = where};
    struct target target;
    struct fault unknown;
    if (section->kind == CONFIG_KEYS && find_target(config, &source, &target, &unknown) != ST_OK) {
        config_warn(config, "%s; it is not used",
                    unknown.text); /* the other binaries may share the environment */
        return ST_OK;
    }
    return assign(config, &source, fault);
}

static enum status assign_environment(struct config *config, char *const *environment, struct fault *fault)
{
    enum status status = ST_OK;
    for (; environment != NULL && *environment != NULL && status == ST_OK; environment++) {
        if (strncmp(*environment, "BELFRY_", 7) == 0)
            status = assign_variable(config, *environment + 7, fault);
    }
    return status;
}

static enum status assign_overrides(struct config *config, const struct config_input *input,
                                    struct fault *fault)
{
    enum status status = ST_OK;
    for (size_t i = 0; i < input->override_count && status == ST_OK; i++) {
        const struct config_override *override = &input->overrides[i];
        char where[CONFIG_NAME_MAX];
        snprintf(where, sizeof where, "--%s", override->flag);
        const struct source source = {.section = span_of(override->section),
                                      .key = span_of(override->key),
                                      .value = span_of(override->value),
                                      .origin = FROM_FLAG,
                                      .where = where};
        status = assign(config, &source, fault);
    }
    return status;
}

enum status config_load(struct config *config, const struct config_input *input, void *settings,
                        struct fault *fault)
{
    assert(config->entry_count == 0);
    enum status status = assign_defaults(config, fault);
    if (status == ST_OK && input->path != NULL)
        status = assign_file(config, input->path, fault);
    if (status == ST_OK)
        status = assign_environment(config, input->environment, fault);
    if (status == ST_OK)
        status = assign_overrides(config, input, fault);
    return status == ST_OK ? config_store(config, settings, fault) : status;
}
