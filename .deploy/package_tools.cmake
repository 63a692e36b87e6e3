# Read by cpack before it packs. Without dpkg-shlibdeps it would make a package that needs no library, and only say so in a
# line among others.
foreach(tool file dpkg-shlibdeps)
  find_program(found_${tool} ${tool})
  if(NOT found_${tool})
    message(FATAL_ERROR "cpack needs ${tool}: apt-get install file dpkg-dev")
  endif()
endforeach()
