# cmake -DFROM=folder -DTO=folder "-DFILES=a;b/c" -P copy.cmake: copies the files, by their paths below FROM.
foreach(file IN LISTS FILES)
  get_filename_component(folder ${file} DIRECTORY)
  file(COPY ${FROM}/${file} DESTINATION ${TO}/${folder})
endforeach()
