//! The server: the page, the API, and messages in and out. tokio and axum live here and nowhere else.
