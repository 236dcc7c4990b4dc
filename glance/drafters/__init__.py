"""One file a drafter. None knows another, and none may decide a token: the target does."""
