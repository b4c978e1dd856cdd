# belfry-reconciler --audit, erasure and tokens, with the real binaries.
belfry_program(system_audit SOURCES audit_test.c LINK belfry_harness)
add_dependencies(system_audit belfry-dispatcher belfry-reconciler belfry-simulator)
foreach(test findings live behind million exit_codes)
    belfry_system(reconciler_audit_${test} system_audit audit/${test} 180)
endforeach()
