// The program whose precompiled headers all tests share (tests/CMakeLists.txt). It does nothing.
int main() {}
