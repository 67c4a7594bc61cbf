"""As much of macOS's libraries as the sensors call, with handles for objects as the real ones have."""

from typing import Any


class Function:
    """A foreign function: ctypes lets callers say its types."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        assert self.argtypes is None or len(self.argtypes) == len(arguments)
        return self._call(*arguments)


class ProcessInfoLibrary:
    """libobjc with NSProcessInfo; called as the function that loads it. A value of None: macOS does not know it yet."""

    def __init__(self, low_power: bool | None = None, thermal_state: int | None = None) -> None:
        self._values = {b"isLowPowerModeEnabled": low_power, b"thermalState": thermal_state}
        self._handles: list[bytes] = [b""]
        self.objc_getClass = Function(self._handle)
        self.sel_registerName = Function(self._handle)

    def __call__(self, name: str) -> "ProcessInfoLibrary":
        return self

    def __getitem__(self, name: str) -> Function:
        assert name == "objc_msgSend"
        return Function(self._send)

    def _handle(self, name: bytes) -> int:
        self._handles.append(name)
        return len(self._handles) - 1

    def _send(self, target: int, selector: int, *arguments: int) -> Any:
        wanted = self._handles[selector]
        if wanted == b"processInfo":
            assert self._handles[target] == b"NSProcessInfo"
            return self._handle(b"the process")
        assert self._handles[target] == b"the process"
        if wanted == b"respondsToSelector:":
            return self._values[self._handles[arguments[0]]] is not None
        return self._values[wanted]


class Foundation:
    """Core Foundation's objects by handle; counts those that are not released."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self._next = 100
        self.CFStringCreateWithCString = Function(lambda allocator, text, encoding: self.make(text))
        self.CFRelease = Function(self.objects.pop)
        self.CFDictionaryContainsKey = Function(lambda held, key: self.objects[key] in self.objects[held])
        self.CFNumberGetValue = Function(self._number)

    def make(self, value: Any) -> int:
        self._next += 1
        self.objects[self._next] = value
        return self._next

    def _number(self, held: int, kind: int, reference: Any) -> bool:
        assert kind == 4  # kCFNumberSInt64Type
        reference._obj.value = self.objects[held]
        return True


class Desktop:
    """ApplicationServices, IOKit and Core Foundation, called as the function that loads one of them."""

    def __init__(
        self, event_seconds: float = 4.5, device_seconds: float | None = None, session: dict[bytes, bool] | None = None
    ) -> None:
        self.foundation = Foundation()
        self._device_seconds = device_seconds
        self.services = type("Services", (), {})()
        self.services.CGEventSourceSecondsSinceLastEventType = Function(
            lambda state, kind: event_seconds if (state, kind) == (0, 0xFFFFFFFF) else -1.0
        )
        self.services.CGSessionCopyCurrentDictionary = Function(
            lambda: None if session is None else self.foundation.make(session)
        )
        self.released: list[int] = []
        self.iokit = type("IOKit", (), {})()
        self.iokit.IOServiceMatching = Function(lambda name: name)
        self.iokit.IOServiceGetMatchingService = Function(
            lambda port, name: 7 if name == b"IOHIDSystem" and device_seconds is not None else 0
        )
        self.iokit.IORegistryEntryCreateCFProperty = Function(self._property)
        self.iokit.IOObjectRelease = Function(self.released.append)

    def __call__(self, path: str) -> Any:
        name = path.rpartition("/")[2]
        return {"ApplicationServices": self.services, "IOKit": self.iokit, "CoreFoundation": self.foundation}[name]

    def _property(self, service: int, key: int, allocator: Any, options: int) -> int | None:
        assert service == 7
        if self.foundation.objects[key] != b"HIDIdleTime" or self._device_seconds is None:
            return None
        return self.foundation.make(int(self._device_seconds * 1e9))
