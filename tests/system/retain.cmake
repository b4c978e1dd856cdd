# Retention, and line 5: a steady load with it scaled down. BELFRY_TEST_MINUTES=20 for the figures of the note.
belfry_program(system_soak SOURCES soak_test.c LINK belfry_chaos)
add_dependencies(system_soak belfry-dispatcher belfry-reconciler belfry-simulator)
belfry_system(reconciler_5_soak system_soak reconciler/soak 1500)
belfry_program(system_retain SOURCES retain_test.c LINK belfry_hand)
add_dependencies(system_retain belfry-reconciler belfry-reconciler-crash belfry-simulator)
foreach(test crash two_processes clock_step refusals)
    belfry_system(reconciler_retain_${test} system_retain retain/${test} 180)
endforeach()
