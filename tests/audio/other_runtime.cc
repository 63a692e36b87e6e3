// What is called like the runtime, and is of another version.
extern "C" const char* SherpaOnnxGetVersionStr() {
  return "1.12.40";
}
