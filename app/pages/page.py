"""What all pages have in common."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QScrollBar, QVBoxLayout, QWidget

from app.context import Context

PAGE_WIDTH = 1120
AROUND = 24
BETWEEN = 16
BAR_WIDTH = 12


def centred(inner: QWidget) -> QHBoxLayout:
    """A row that keeps `inner` no wider than a page and in the middle."""
    inner.setMaximumWidth(PAGE_WIDTH)
    row = QHBoxLayout()
    row.setContentsMargins(AROUND, 0, AROUND, 0)
    row.addStretch(1)
    row.addWidget(inner, 1000)
    row.addStretch(1)
    return row


class PageScroll(QScrollArea):
    """Scrolls a page; its bar lies over the margin, so that pages with and without one keep the same edges.

    The canvas is as high as its wrapped text needs at this width; Qt's own resizing asks for the height at the least
    width, which leaves empty room below.
    """

    def __init__(self, canvas: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._canvas = canvas
        self.setWidget(canvas)
        canvas.installEventFilter(self)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._bar = QScrollBar(Qt.Orientation.Vertical, self)
        own = self.verticalScrollBar()
        own.rangeChanged.connect(self._range_changed)
        own.valueChanged.connect(self._bar.setValue)
        self._bar.valueChanged.connect(own.setValue)
        self._range_changed(own.minimum(), own.maximum())

    def _range_changed(self, low: int, high: int) -> None:
        own = self.verticalScrollBar()
        self._bar.setRange(low, high)
        self._bar.setPageStep(own.pageStep())
        self._bar.setSingleStep(own.singleStep())
        self._bar.setVisible(high > low)

    def _fit(self) -> None:
        layout = self._canvas.layout()
        if layout is None:
            return
        width = self.viewport().width()
        needed = layout.minimumHeightForWidth(width) if layout.hasHeightForWidth() else layout.minimumSize().height()
        self._canvas.resize(width, max(needed, self.viewport().height()))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._canvas and event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        self._bar.setGeometry(self.width() - BAR_WIDTH, 0, BAR_WIDTH, self.height())
        self._bar.raise_()


class Page(QWidget):
    """A column of cards, which scrolls when it is longer than the window. Pages fill `column`."""

    def __init__(self, context: Context, title: str, *, scrolls: bool = True, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.context = context
        self.title = title
        self.setAccessibleName(title)
        inner = QWidget()
        self.column = QVBoxLayout(inner)
        self.column.setContentsMargins(0, 0, 0, AROUND)
        self.column.setSpacing(BETWEEN)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        if not scrolls:
            outer.addLayout(centred(inner))
            return
        canvas = QWidget()
        canvas.setObjectName("page")
        canvas.setLayout(centred(inner))
        outer.addWidget(PageScroll(canvas))

    def fill(self) -> None:
        """Make what the page makes only when it is first shown; called each time before it is."""
