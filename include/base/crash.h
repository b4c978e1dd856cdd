/* Crash points of the system tests. In the product CRASH_POINT is nothing; in the *_crash libraries it
 * kills the process with SIGKILL when BELFRY_CRASH names it: "claim" or "claim:3" (the third pass);
 * "claim:3:stop" freezes it with SIGSTOP instead. Every row of a stage table has a point of its name (test
 * house_crash_points). */
#ifndef BELFRY_BASE_CRASH_H
#define BELFRY_BASE_CRASH_H

#ifdef BELFRY_CRASH_POINTS
void crash_point_pass(const char *name);
#define CRASH_POINT(name) crash_point_pass(name)
#else
#define CRASH_POINT(name) ((void)(name))
#endif

#endif
