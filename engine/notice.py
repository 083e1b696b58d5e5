"""What a user should know of a run: one English sentence, which a page may say in another language."""


class Notice(str):
    """The English sentence as text, in a trace's JSON too. key: which sentence it is. values: what stands in it by the
    names of its gaps: text, numbers, or lists of (whole number, number). Read back from a trace it is plain text."""

    key: str
    values: dict[str, object]

    def __new__(cls, text: str, key: str = "", **values: object) -> "Notice":
        notice = super().__new__(cls, text)
        notice.key, notice.values = key, values
        return notice
