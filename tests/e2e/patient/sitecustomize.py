"""Run by Python before a daemon of a test: it waits for the answer to a question as long as the test does.

A person would not, and is answered by words alone after two seconds.
"""

from sidecar.index.patience import Patience

Patience.__init__.__defaults__ = (60.0, *(Patience.__init__.__defaults__ or ())[1:])  # `answer_s` is the first
