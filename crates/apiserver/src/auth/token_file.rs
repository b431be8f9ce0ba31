//! Tokens from a file: `token,user,uid,"group,group"`, as Kubernetes' static token file.

use std::path::{Path, PathBuf};

use objects::access::User;

use super::same;

/// Who has which token. Empty where there is no file.
#[derive(Default)]
pub struct TokenFile(Vec<(model::Secret<String>, User)>);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}, line {line}: must be token,user,uid or token,user,uid,\"group,group\"")]
    Line { path: PathBuf, line: usize },
}

impl TokenFile {
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|line| Error::Line {
            path: path.to_owned(),
            line,
        })
    }

    /// The number of the first line that cannot be read, otherwise. It is not quoted: it holds a token.
    fn parse(text: &str) -> Result<Self, usize> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        lines
            .map(|(at, line)| parse_line(line).ok_or(at + 1))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn user(&self, token: &str) -> Option<User> {
        let (_, user) = self
            .0
            .iter()
            .find(|(known, _)| same(known.expose().as_bytes(), token.as_bytes()))?;
        Some(user.clone())
    }
}

fn parse_line(line: &str) -> Option<(model::Secret<String>, User)> {
    let mut fields = line.trim().splitn(4, ',').map(str::trim);
    let (token, name, uid) = (fields.next()?, fields.next()?, fields.next()?);
    if token.is_empty() || name.is_empty() {
        return None;
    }
    let groups = fields.next().unwrap_or_default().trim_matches('"');
    let groups = groups.split(',').map(str::trim);
    let user = User {
        name: name.to_owned(),
        uid: uid.to_owned(),
        groups: groups
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect(),
        ..User::default()
    };
    Some((model::Secret::new(token.to_owned()), user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_token_a_user_and_their_groups() {
        let file = "# admins\ns3cret,admin,1,\"system:masters, ops\"\n\nother,jane,\n";
        let file = TokenFile::parse(file).unwrap();
        let admin = file.user("s3cret").unwrap();
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("admin", "1"));
        assert_eq!(admin.groups, ["system:masters", "ops"]);
        assert_eq!(file.user("other").unwrap().groups, Vec::<String>::new());
        assert_eq!(file.user(""), None);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        assert_eq!(TokenFile::parse("a,b,c\nhunter2").err(), Some(2));
        assert_eq!(TokenFile::parse(",b,c").err(), Some(1));
    }
}
