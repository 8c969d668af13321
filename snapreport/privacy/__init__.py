"""What must not be public: whose home, user, host, address, link or key a text holds."""
