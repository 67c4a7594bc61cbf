"""Files that are not code: icons, themes, translations, bundled manifests."""
