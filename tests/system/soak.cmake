# Line 5: a steady load with retention scaled down. BELFRY_TEST_MINUTES=20 for the figures of the note.
belfry_program(system_soak SOURCES soak_test.c LINK belfry_chaos)
add_dependencies(system_soak belfry-dispatcher belfry-reconciler belfry-simulator)
belfry_system(reconciler_5_soak system_soak reconciler/soak 1500)
