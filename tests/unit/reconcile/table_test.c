/* The transition table of src/README.md says what model/dispatch.c does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "model/dispatch.h"

enum { CELLS = DISPATCH_STATES };

/* The cells of a line of a table, trimmed; false when it has another number of them. */
static bool split(char *line, char *cells[CELLS])
{
    size_t count = 0;
    char *at = line + 1; /* behind the first bar */
    for (char *bar = strchr(at, '|'); bar != NULL; at = bar + 1, bar = strchr(at, '|')) {
        *bar = '\0';
        if (count == CELLS)
            return false;
        at += strspn(at, " ");
        cells[count++] = at;
    }
    return count == CELLS;
}

static enum dispatch_state state_of(const char *name)
{
    enum dispatch_state state = DISPATCH_QUEUED;
    size_t bytes = strcspn(name, " /");
    cr_assert(dispatch_state_parse((struct span){name, bytes}, &state), "state %s", name);
    return state;
}

static void check_row(char *const cells[CELLS], const enum dispatch_state to[CELLS])
{
    enum dispatch_state from = state_of(cells[0]);
    const char *error = strstr(cells[0], "Unconfirmed") != NULL ? "Unconfirmed" : "Other";
    for (int i = 1; i < CELLS; i++) {
        bool may = strstr(cells[i], "✓") != NULL, but = strstr(cells[i], "any other code") != NULL;
        cr_assert_eq(dispatch_may_move(from, error, to[i], "MessageTooBig"), may, "%s -> %s", cells[0],
                     dispatch_state_name(to[i]));
        cr_assert_eq(dispatch_may_move(from, error, to[i], "Unconfirmed"), may && !but,
                     "%s -> %s/Unconfirmed", cells[0], dispatch_state_name(to[i]));
    }
}

Test(table, the_map_says_what_the_code_does)
{
    FILE *file = fopen(BELFRY_SOURCE_DIR "/src/README.md", "r");
    cr_assert_not_null(file);
    char line[512], head[512], *cells[CELLS];
    enum dispatch_state to[CELLS] = {DISPATCH_QUEUED};
    int rows = -1; /* the head is not found yet */
    while (fgets(line, sizeof line, file) != NULL) {
        if (rows < 0 && strncmp(line, "| from", 6) == 0) {
            snprintf(head, sizeof head, "%s", line);
            cr_assert(split(head, cells));
            for (int i = 1; i < CELLS; i++)
                to[i] = state_of(cells[i]);
            rows = 0;
        } else if (rows >= 0 && line[0] == '|' && line[1] == ' ') {
            cr_assert(split(line, cells), "%s", line);
            check_row(cells, to);
            rows++;
        } else if (rows > 0) {
            break;
        }
    }
    fclose(file);
    cr_assert_eq(rows, DISPATCH_STATES + 1);
    printf("src/README.md and model/dispatch.c agree on %d rows of %d outcomes\n", rows, CELLS - 1);
}
