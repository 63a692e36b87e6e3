# What `ninja install` puts where, and the Debian package that CPack makes of it (`cpack` in a build folder of the preset
# `release`). The programs lie together, because a worker looks for its helpers beside itself.
include(GNUInstallDirs)
set(here ${CMAKE_CURRENT_LIST_DIR})
set(made ${CMAKE_BINARY_DIR}/package)
file(MAKE_DIRECTORY ${made})

install(TARGETS audio-api audio-worker audio-decode audio-speech audio-onnx RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/audiogen)
foreach(program audio-api audio-worker)
  file(CREATE_LINK ../${CMAKE_INSTALL_LIBEXECDIR}/audiogen/${program} ${made}/${program} SYMBOLIC)
  install(FILES ${made}/${program} DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()

# What installs the runtime of audio-onnx, for whoever wants it.
install(PROGRAMS ${CMAKE_SOURCE_DIR}/worker/onnx/runtime/install.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/audiogen/onnx-runtime)
install(FILES ${CMAKE_SOURCE_DIR}/worker/onnx/runtime/package.json ${CMAKE_SOURCE_DIR}/worker/onnx/runtime/package-lock.json
  ${CMAKE_SOURCE_DIR}/worker/onnx/runtime/.npmrc DESTINATION ${CMAKE_INSTALL_DATADIR}/audiogen/onnx-runtime)

# Units and what goes with them have places of their own, whatever the prefix.
file(GLOB units CONFIGURE_DEPENDS ${here}/systemd/*)
file(GLOB settings CONFIGURE_DEPENDS ${here}/etc/*.env)
# Until Debian 12 packages say /lib, from 13 on /usr/lib; both are the same folder there.
file(STRINGS /etc/os-release release REGEX "^VERSION_ID=")
string(REGEX REPLACE "[^0-9.]" "" release "${release}")
if(release VERSION_LESS 13)
  install(FILES ${units} DESTINATION /lib/systemd/system)
else()
  install(FILES ${units} DESTINATION /usr/lib/systemd/system)
endif()
install(FILES ${settings} DESTINATION /etc/audiogen PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ)
install(DIRECTORY DESTINATION /etc/audiogen/credentials DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
install(FILES ${here}/debian/sysusers.conf DESTINATION /usr/lib/sysusers.d RENAME audiogen.conf)
install(FILES ${here}/debian/tmpfiles.conf DESTINATION /usr/lib/tmpfiles.d RENAME audiogen.conf)

# Documents, packed as Debian wants them, the same bytes for the same sources.
function(install_packed source name folder)
  add_custom_command(OUTPUT ${made}/${name}
    COMMAND sh -c "gzip -9 -n <'${source}' >'${made}/${name}'" DEPENDS ${source} VERBATIM)
  list(APPEND packed ${made}/${name})
  set(packed ${packed} PARENT_SCOPE)
  install(FILES ${made}/${name} DESTINATION ${folder})
endfunction()
set(documents ${CMAKE_INSTALL_DATADIR}/doc/audiogen)
# It is for the release that it is built on.
file(STRINGS /etc/os-release codename REGEX "^VERSION_CODENAME=")
string(REPLACE "VERSION_CODENAME=" "" codename "${codename}")
configure_file(${here}/debian/changelog.in ${made}/changelog @ONLY)
install_packed(${made}/changelog changelog.gz ${documents})
install_packed(${CMAKE_SOURCE_DIR}/CHANGELOG.md CHANGELOG.md.gz ${documents})
foreach(program audio-api audio-worker)
  install_packed(${here}/debian/${program}.8 ${program}.8.gz ${CMAKE_INSTALL_MANDIR}/man8)
endforeach()
add_custom_target(packed_documents ALL DEPENDS ${packed})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${documents} RENAME copyright)
install(FILES ${here}/debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME audiogen)

set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE ${here}/package_tools.cmake)
set(CPACK_PACKAGE_NAME audiogen)
set(CPACK_PACKAGE_CONTACT "The authors of audiogen <audiogen@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "asynchronous audio generation service")
set(CPACK_PACKAGE_DESCRIPTION "An HTTP interface that takes texts, and workers that have audio made of them,
with a database as the truth, a broker for hints, and accounts of credits.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION sound)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # The libraries, and which versions of them.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "ca-certificates, espeak-ng-data, systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "default-mysql-server, rabbitmq-server, nginx")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${here}/debian/conffiles ${here}/debian/postinst ${here}/debian/prerm ${here}/debian/postrm)
include(CPack)
