/* What others ask of a configuration that is loaded: is a key given, where did a value come from. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config_private.h"

static const struct config_entry *find_entry(const struct config *config, const char *section,
                                             const char *key)
{
    for (size_t i = 0; i < config->entry_count; i++) {
        const struct config_entry *entry = &config->entries[i];
        if (strcmp(entry->section->name, section) == 0 && strcmp(entry->name, key) == 0)
            return entry;
    }
    return NULL;
}

enum status config_require(const struct config *config, const char *section, const char *key,
                           struct fault *fault)
{
    char variable[CONFIG_NAME_MAX * 2], field[FAULT_FIELD_MAX];
    const struct config_entry *entry = find_entry(config, section, key);
    if (entry != NULL && entry->value[0] != '\0')
        return ST_OK;
    snprintf(variable, sizeof variable, "BELFRY_%s_%s", section, key);
    for (char *at = variable; *at != '\0'; at++)
        *at = (char)(*at == '.' ? '_' : toupper((unsigned char)*at));
    fault_set(fault, "config", "[%s] %s must be given, in the file (-F) or as %s", section, key, variable);
    snprintf(field, sizeof field, "%s.%s", section, key);
    fault_set_field(fault, field);
    return ST_REJECT;
}

/* Of "NAME.key" or "NAME"; the head where the key is not given. */
static const struct config_entry *find_named(const struct config *config, const char *section,
                                             const char *field)
{
    const struct config_entry *head = NULL;
    for (size_t i = 0; i < config->entry_count; i++) {
        const struct config_entry *entry = &config->entries[i];
        size_t bytes = entry->named == NULL ? 0 : strlen(entry->named);
        if (bytes == 0 || strcmp(entry->section->name, section) != 0 ||
            strncmp(field, entry->named, bytes) != 0 || (field[bytes] != '.' && field[bytes] != '\0'))
            continue;
        if (field[bytes] == '.' && strcmp(entry->name, field + bytes + 1) == 0)
            return entry;
        if (entry->name[0] == '\0')
            head = entry;
    }
    return head;
}

void config_blame(const struct config *config, struct fault *fault)
{
    /* Copies, as fault_set wipes the fault before it reads. */
    char code[FAULT_CODE_MAX], field[FAULT_FIELD_MAX], section[FAULT_FIELD_MAX], text[FAULT_TEXT_MAX];
    snprintf(code, sizeof code, "%s", fault->code);
    snprintf(field, sizeof field, "%s", fault->field);
    snprintf(section, sizeof section, "%s", field);
    char *dot = strchr(section, '.');
    if (dot == NULL)
        return;
    *dot = '\0';
    const struct config_entry *entry = find_entry(config, section, dot + 1);
    if (entry == NULL)
        entry = find_named(config, section, dot + 1);
    if (entry == NULL || entry->origin == FROM_DEFAULT)
        return;
    snprintf(text, sizeof text, "%s", fault->text);
    fault_set(fault, code, "%s: %s", entry->where, text);
    fault_set_field(fault, field);
}

const char *config_pairs_find(const struct config_pairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; i++) {
        if (strcmp(pairs->pairs[i].key, key) == 0)
            return pairs->pairs[i].value;
    }
    return NULL;
}
