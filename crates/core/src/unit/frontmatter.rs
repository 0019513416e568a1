//! The frontmatter of a markdown file: read strictly, and one value changed without touching another byte.
