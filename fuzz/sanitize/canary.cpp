// Faults on purpose: a run that does not find them proves nothing.

#include <thread>

extern "C" int read_outside() {
    const volatile int size = 4;
    const int* values = new int[4]();
    const int value = values[size];
    delete[] values;
    return value;
}

extern "C" int race() {
    int shared = 0;
    {
        std::jthread one([&] { ++shared; }), other([&] { ++shared; });
    }
    return shared;
}
